import json
import os
from dataclasses import dataclass

from conductor import worker_task
from conductor.client.workflow import add, switch, workflow
from conductor.client.workflow.task.human_task import HumanTask

os.environ["CONDUCTOR_SECRET_BANK_KEY"] = "k-5f3a9c"  # in production: the environment of the server


@dataclass
class Expense:
    employee: str
    cents: int


@worker_task("pay_expense")
def pay_expense(expense: Expense, api_key: str) -> str:
    return f"paid {expense.cents} cents to {expense.employee}"


FORM = {
    "type": "object",
    "required": ["decision"],
    "properties": {
        "decision": {"enum": ["yes", "no"]},
        "comment": {"type": "string", "description": "The employee reads this text."},
    },
}

with workflow("approve_expense", inputs={"expense": Expense}) as approve_expense:
    expense = approve_expense.input("expense")
    approval = add(HumanTask("approval", display_name="Approve an expense"))
    approval.input_parameter("expense", expense).input_parameter("formSchema", FORM)
    with switch(approval.output("decision")) as case:
        with case("yes"):
            pay_expense(expense=expense, api_key="${workflow.secrets.BANK_KEY}")
    approve_expense.returns(decision=approval.output("decision"), comment=approval.output("comment"))

approve_expense.validate()
assert "k-5f3a9c" not in json.dumps(approve_expense.to_workflow_def().to_dict())
