"""Models that only Orkes Conductor has."""
