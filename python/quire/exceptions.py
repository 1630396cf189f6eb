"""Exceptions of the package. All of them derive from `QuireError`. vLLM's names are here too, so that its handlers work."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any


class QuireError(RuntimeError):
    """A model cannot be loaded, or a request failed. The message says where, what is wrong and what to do."""


class ClientError(QuireError):
    """A request that cannot be served as it is."""


class ServerError(QuireError):
    """A failure that is not the request's fault."""


class _ParameterError(ClientError):
    def __init__(self, message: str = "", *, parameter: str | None = None, value: Any = None) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.value = value

    def __str__(self) -> str:
        named = {"parameter": self.parameter, "value": self.value}
        extras = ", ".join(f"{name}={value}" for name, value in named.items() if value is not None)
        return f"{super().__str__()} ({extras})" if extras else super().__str__()


class VLLMValidationError(_ParameterError):
    """vLLM's name for an error of a request. quire raises `ValidationError`."""


class ValidationError(VLLMValidationError, ValueError):
    """A request is not valid: a parameter is out of range, or the prompt is too long for the model.

    Attributes:
        parameter: Name of the parameter, or None.
        value: Its value, or None.
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # the message names parameter and value


class UnsupportedError(ClientError, NotImplementedError):
    """A feature of vLLM that quire does not have, or an object used where it cannot work."""


class ChatTemplateResolutionError(ValidationError):
    """A conversation cannot be rendered: the model has no chat template, and none was given."""


class EngineDeadError(ServerError):
    """The engine has failed or was shut down. Create a new one."""


class EngineGenerateError(ServerError):
    """vLLM's name for a request that failed while the engine goes on."""


class GracefulHTTPError(QuireError):
    """An error with the HTTP status that a server should answer with."""

    def __init__(self, message: str, http_status: HTTPStatus) -> None:
        super().__init__(message)
        self.message = message
        self.http_status = http_status


class QueueOverflowError(GracefulHTTPError):
    """The engine accepts no more requests: its queue is full, or it was shut down."""

    def __init__(self, message: str = "The queue of the engine is full.") -> None:
        super().__init__(message, HTTPStatus.SERVICE_UNAVAILABLE)


class VLLMNotFoundError(ClientError):
    """Something that a request names does not exist."""


class LoRAAdapterNotFoundError(VLLMNotFoundError):
    """An adapter does not exist."""

    def __init__(self, lora_name: str, lora_path: str) -> None:
        self.message = f"there is no adapter at {lora_path} for {lora_name}"
        super().__init__(self.message)


# The following are never raised. They exist for handlers that are written for vLLM.


class VLLMUnprocessableEntityError(_ParameterError):
    """The content of a request cannot be processed."""


class GenerationError(ServerError):
    """A request failed inside of the engine."""

    status_code = HTTPStatus.INTERNAL_SERVER_ERROR


class RetryableRequestError(GenerationError):
    """A request failed and may succeed if it is sent again."""

    status_code = HTTPStatus.SERVICE_UNAVAILABLE


class MaxQueuedTokensError(GracefulHTTPError):
    """Too many prompt tokens wait."""

    def __init__(self, message: str = "Too many prompt tokens wait.") -> None:
        super().__init__(message, HTTPStatus.SERVICE_UNAVAILABLE)


class ProfilerAlreadyActiveError(GracefulHTTPError):
    """A profile is being recorded already."""

    def __init__(self, message: str = "A profile is being recorded already.") -> None:
        super().__init__(message, HTTPStatus.CONFLICT)


VLLMError = QuireError
VLLMClientError = ClientError
VLLMServerError = ServerError
