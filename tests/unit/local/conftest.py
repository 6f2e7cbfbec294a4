from tests.unit.workflow.conftest import workers as workers
