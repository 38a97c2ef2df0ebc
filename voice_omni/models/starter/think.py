"""The thinker: SmolLM2-135M-Instruct on CTranslate2, int8. Messages in, text out, token by token.

Opens with the request's ``inputs["messages"]`` and, on a route that starts with speech, the encoder's transcript as the
last message. Stream output: ``{"text": str}``, the next piece of the answer, and, to the client alone, ``{"tool_call":
dict}``, the next piece of a function call. Result ``{"text", "finish_reason", "usage"}``; the text is what was said
(see :mod:`voice_omni.proto.vocabulary`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from voice_omni.engines.ctranslate2_engine import CTranslate2Engine
from voice_omni.engines.interface import Row, RowOutput, Sampling
from voice_omni.model_runner.detokenizer import Detokenizer, TokenBytes
from voice_omni.model_runner.interface import Emit, Outcome
from voice_omni.model_runner.tool_calls import CallParser, Piece
from voice_omni.models.starter.options import ThinkerOptions
from voice_omni.models.starter.think_model import prompt_writer, stop_tokens, thinker_folder
from voice_omni.models.starter.think_prompt import EXAMPLES, PromptWriter
from voice_omni.models.starter.think_sentences import SentenceEnds
from voice_omni.models.starter.think_tokenizer import load_tokenizer
from voice_omni.models.starter.think_tools import EXAMPLES as TOOL_EXAMPLES
from voice_omni.models.starter.think_tools import Tooling, as_text, tooling
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import CLIENT, Data, StagePayload
from voice_omni.proto.vocabulary import FINISH_REASON, FOLLOWING, MESSAGES, TEXT, TOOL_CALL, TRANSCRIPT, USAGE

_ENCODER: Final = "encoder"


class ThinkerParams(msgspec.Struct, frozen=True):
    """What a request may say about its answer; None leaves it to the stage's options."""

    instructions: str | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=4096)] | None = None
    seed: int | None = None


@dataclass(slots=True)
class Thought:
    """One answer in the making."""

    opening: list[int]
    messages: list[Data]
    prompt_tokens: int
    detokenizer: Detokenizer
    ends: SentenceEnds = field(default_factory=SentenceEnds)
    text: list[str] = field(default_factory=list)
    tokens: int = 0
    calls: CallParser | None = None
    pieces: list[Piece] = field(default_factory=list)
    called: bool = False

    @property
    def calling(self) -> bool:
        """Whether a function call is being written."""
        return self.calls is not None and self.calls.inside


class ThinkerRunner:
    """A :class:`~voice_omni.model_runner.interface.AutoregressiveRunner`.

    ``expect``: called with the tokens that the session's next prompt will probably begin with.
    """

    def __init__(
        self,
        options: ThinkerOptions,
        writer: PromptWriter,
        token_bytes: TokenBytes,
        stop: frozenset[int],
        expect: Callable[[list[int]], None],
    ) -> None:
        self._options = options
        self._writer = writer
        self._bytes = token_bytes
        self._stop = stop
        self._expect = expect
        self._opening = writer.opening(options.system_prompt, EXAMPLES if options.examples else ())
        expect(self._opening)

    def open(self, payload: StagePayload) -> tuple[Thought, Row]:
        """Raises :class:`OmniError`: ``no_speech`` (the person said no words), ``invalid_value``."""
        params = _params(payload.request.params)
        messages = list(payload.request.inputs.get(MESSAGES, ()))
        if _ENCODER in payload.results:
            heard = payload.results[_ENCODER][TRANSCRIPT].strip()
            if not heard:
                raise OmniError("no_speech", "no words were heard")
            messages.append({"role": "user", "content": heard})
            messages += payload.request.inputs.get(FOLLOWING, ())
        options = self._options
        tools = tooling(payload.request.inputs, messages)
        opening = self._opening_for(params.instructions, tools, told=bool(messages) and messages[-1]["role"] == "tool")
        messages = [as_text(message) for message in messages]
        max_new_tokens = params.max_output_tokens or options.max_new_tokens
        start = tools.start if tools is not None else ""
        prompt = self._writer.write(opening, messages, max_new_tokens, start)
        sampling = Sampling(
            temperature=options.temperature if params.temperature is None else params.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            repetition_penalty=1.0 if start else options.repetition_penalty,  # JSON repeats its punctuation
            seed=params.seed or 0,
        )
        row = Row(payload.request_id, prompt.tokens, max_new_tokens, self._stop, sampling, prompt.prefix_len)
        thought = Thought(opening, messages, len(prompt.tokens), Detokenizer(self._bytes))
        if tools is not None:
            thought.calls = CallParser(tools.names)
            thought.pieces = thought.calls.push(start)
        return thought, row

    def advance(self, state: Thought, output: RowOutput) -> Outcome:
        outcome = Outcome()
        finish = output.finish
        pieces: list[str] = []
        for token in output.tokens:
            state.tokens += 1
            piece = state.detokenizer.push((token,))
            if not state.calling and state.ends.before(piece) and state.tokens > self._options.sentence_tokens:
                finish = "stop"
                break
            pieces.append(piece)
        else:
            if finish is not None:
                pieces.append(state.detokenizer.finish())
        for said in self._read(state, "".join(pieces), finish):
            if isinstance(said, str):
                state.text.append(said)
                outcome.emits.append(Emit({TEXT: said}))
            else:
                state.called = True
                outcome.emits.append(Emit({TOOL_CALL: asdict(said)}, targets=(CLIENT,)))
        if finish is not None:
            outcome.result = self._finish(state, finish)
        return outcome

    def close(self, state: Thought) -> None:
        """Nothing outlives the state itself."""

    def _opening_for(self, instructions: str | None, tools: Tooling | None, *, told: bool) -> list[int]:
        """``told``: a call's result is to be told, of which the usual examples, all small talk, lead away."""
        system = self._options.system_prompt if instructions is None else instructions
        if tools is not None:
            return self._writer.opening(system + tools.system, TOOL_EXAMPLES)
        if told:
            return self._writer.opening(system)
        return self._opening if instructions is None else self._writer.opening(instructions)

    def _read(self, state: Thought, text: str, finish: str | None) -> list[Piece]:
        """What the text says and calls. Raises :class:`OmniError` ``invalid_tool_call``."""
        if state.calls is None:
            return [text] if text else []
        pieces, state.pieces = [*state.pieces, *state.calls.push(text)], []
        return pieces if finish is None else [*pieces, *state.calls.finish(cut=finish == "length")]

    def _finish(self, state: Thought, finish: str) -> Data:
        text = "".join(state.text)
        if not state.called:  # what comes after a call is its result, which begins another prompt
            answer = {"role": "assistant", "content": text}
            self._expect(self._writer.prefix(state.opening, [*state.messages, answer]))
        usage = {"input_tokens": state.prompt_tokens, "output_tokens": state.tokens}
        return {TEXT: text, FINISH_REASON: finish, USAGE: usage}


def _params(params: Data) -> ThinkerParams:
    try:
        return msgspec.convert(params, ThinkerParams)
    except msgspec.ValidationError as error:
        raise OmniError("invalid_value", f"params: {error}", param="params") from error


def build(context: StageContext) -> tuple[ThinkerRunner, CTranslate2Engine]:
    """The runner and the engine of the stage ``thinker``; ``context.options`` are :class:`.options.ThinkerOptions`."""
    options: ThinkerOptions = context.options
    folder = thinker_folder()
    tokenizer = load_tokenizer(folder)
    writer = prompt_writer(tokenizer, history_tokens=options.history_tokens, message_tokens=options.message_tokens)
    engine = CTranslate2Engine(folder, max_rows=options.max_rows, prefix_tokens=options.prefix_tokens)
    return ThinkerRunner(options, writer, TokenBytes(tokenizer), stop_tokens(tokenizer), engine.warm), engine
