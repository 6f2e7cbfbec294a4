"""What travels only to and from Orkes Conductor."""
