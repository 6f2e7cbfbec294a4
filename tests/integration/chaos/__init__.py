"""Chaos: real processes behind a network that lies, and a ledger of what really happened."""
