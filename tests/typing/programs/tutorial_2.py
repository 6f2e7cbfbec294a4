# remind.py
import sys

from conductor import OrkesClients
from conductor.client.http.models import StartWorkflowRequest

workflows = OrkesClients().get_workflow_client()
request = StartWorkflowRequest(name="reminder", input={"name": sys.argv[1], "text": "your book is due"})
done = workflows.execute_workflow(request, wait_for_seconds=30)
print(done.status, done.output)
