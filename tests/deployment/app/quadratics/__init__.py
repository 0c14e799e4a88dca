"""A numpy app for tests: client ``n`` minimises ``|x - c_n|^2 / 2``."""
