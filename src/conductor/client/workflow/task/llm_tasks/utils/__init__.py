"""What several of the LLM steps take."""
