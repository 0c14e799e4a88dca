"""`fedau bench`: what this software costs, as ratios measured side by side.

Each module holds one kind of measurement. Everything that is compared runs in turns within one
command, does the same work, and is compared round by round, so that a machine that is slow for a
while is slow for both sides.
"""
