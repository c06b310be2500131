"""Our loop inside other programs: speech processors of servers, and their logs."""
