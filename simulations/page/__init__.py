"""The page: runs and federations in a browser, live (`fedau watch`) or as a file (`fedau report`).

The same HTML, CSS and JavaScript serve both; they are files in ``assets``, need no build step and
load nothing from anywhere else.
"""
