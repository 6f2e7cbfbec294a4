from dataclasses import dataclass

from conductor import worker_task
from conductor.client.workflow import WorkflowError, workflow


@dataclass
class Customer:
    name: str
    language: str = "en"


@dataclass
class Letter:
    text: str


@worker_task("write")
def write(name: str, language: str) -> str:
    return f"Dear {name}"


with workflow("letter", inputs={"customer": Customer}, returns=Letter) as letter:
    customer = letter.input("customer")
    letter.returns(text=write(name=customer.name, language=customer.language))

assert letter.run({"customer": Customer("Ada")}) == Letter("Dear Ada")
try:
    letter.run({"custmer": "Ada"})
except WorkflowError as error:
    assert '"customer" is a required property' in str(error)
