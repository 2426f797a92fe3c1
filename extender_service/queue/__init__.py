"""The scheduling queue: which pods wait for what, and which one comes next. It reads no clock of its own."""
