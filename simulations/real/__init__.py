"""The app on a real federation: nodes that come and go by themselves, each with its own data."""
