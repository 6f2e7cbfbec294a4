"""Types of arguments that several LLM steps share."""
