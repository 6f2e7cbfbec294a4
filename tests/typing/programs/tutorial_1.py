# reminders.py
from conductor import worker_task
from conductor.client.workflow import workflow

CUSTOMERS = {"ada": "ada@example.com", "grace": "grace@example.com"}


@worker_task("find_customer", retries=3, retry_delay_s=1)
def find_customer(name: str) -> str:
    return CUSTOMERS[name]


@worker_task("send_reminder", thread_count=20)
def send_reminder(address: str, text: str) -> bool:
    print(f"to {address}: {text}")
    return True


with workflow("reminder", inputs={"name": str, "text": str}) as reminder:
    address = find_customer(name=reminder.input("name"))
    sent = send_reminder(address=address, text=reminder.input("text"))
    reminder.returns(sent=sent)

if __name__ == "__main__":
    print(reminder.run({"name": "ada", "text": "your book is due"}))
