"""A method, a task and a participation pattern that lie outside of the suite."""
