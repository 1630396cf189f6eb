"""Exceptions of the package. All of them derive from `QuireError`."""


class QuireError(RuntimeError):
    """A model cannot be loaded, or a request failed. The message says where, what is wrong and what to do."""


class ValidationError(QuireError, ValueError):
    """A request is not valid: a parameter is out of range, or the prompt is too long for the model."""


class UnsupportedError(QuireError, NotImplementedError):
    """A feature of vLLM that quire does not have, or an object used where it cannot work."""


class QueueOverflowError(QuireError):
    """The engine accepts no more requests: its queue is full, or it was shut down."""


class EngineDeadError(QuireError):
    """The engine has failed or was shut down. Create a new one."""
