# hello.py
from conductor import worker_task
from conductor.client.workflow import workflow


@worker_task("greet")
def greet(name: str) -> str:
    return f"Hello {name}"


with workflow("hello", inputs={"name": str}) as hello:
    hello.returns(greeting=greet(name=hello.input("name")))

if __name__ == "__main__":
    print(hello.run({"name": "Ada"}))  # {'greeting': 'Hello Ada'}
