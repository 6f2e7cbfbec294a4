"""One request script, played on two servers, and what differs between their answers."""
