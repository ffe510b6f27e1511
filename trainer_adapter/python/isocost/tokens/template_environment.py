"""Compiles chat templates as transformers does. Imports jinja2, which the rest of the package does not need."""

import datetime
import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Rendered(NamedTuple):
    """A template's text, and its generation blocks: where each begins, in characters, and its text."""

    text: str
    generated: List[Tuple[int, str]]


class GenerationBlocks(jinja2.ext.Extension):  # type: ignore[misc]
    """`{% generation %}` ... `{% endgeneration %}`: text that the assistant writes."""

    tags = frozenset({"generation"})

    def __init__(self, environment: Any):
        super().__init__(environment)
        self.length = 0
        self.generated: Optional[List[Tuple[int, str]]] = None

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_record"), [], [], body).set_lineno(line)

    def _record(self, caller: Callable[[], str]) -> str:
        written = caller()
        if self.generated is not None:
            self.generated.append((self.length, str(written)))
        return written


class _Dict:
    """Python's `dict` in a template, without access to the class."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Dict[Any, Any]:
        return dict(*arguments, **keywords)


class CompiledTemplate:
    """A chat template with the environment that transformers gives it.

    Raises: jinja2.TemplateError where the text is no template.
    """

    def __init__(self, text: str):
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlocks, jinja2.ext.loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now, dict=_Dict())
        self._blocks = environment.extensions[GenerationBlocks.identifier]
        self._template = environment.from_string(text)

    def render(self, variables: Mapping[str, Any]) -> Rendered:
        """Returns the text that the template writes. Raises whatever the template raises."""
        pieces = []
        generated: List[Tuple[int, str]] = []
        self._blocks.length, self._blocks.generated = 0, generated
        try:
            for piece in self._template.generate(**variables):
                pieces.append(piece)
                self._blocks.length += len(piece)
        finally:
            self._blocks.generated = None
        return Rendered("".join(pieces), generated)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.datetime.now().strftime(form)


def _to_json(value: Any, ensure_ascii: bool = False, indent: Optional[int] = None,
             separators: Optional[Tuple[str, str]] = None, sort_keys: bool = False) -> str:
    """Serves as the filter `tojson`, since jinja2's own escapes characters that are special in HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
