"""The one error that people meet: a sentence that says what was wrong and what would be right.

Knows nothing of books, models or sound. The command line prints the sentence and leaves with code 2;
anything else that is raised is a fault of ours and keeps its traceback.
"""


class UserError(Exception):
    """Something outside the program was not as it should be; `str(error)` is a whole sentence."""


class BookError(UserError):
    """The book cannot be read: what is wrong with it and what would do."""


class CheckpointError(UserError):
    """The checkpoint cannot be used: file, tensor or key, what was wanted, what was found."""


class OutputError(UserError):
    """The output cannot be written: where, and why."""
