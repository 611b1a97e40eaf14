"""What happened: operations and how long they usually take, the slow ones, waits, links. It accuses nobody."""
