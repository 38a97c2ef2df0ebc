"""pipecat: ``OpenAIRealtimeLLMService`` in a pipeline with its context aggregators."""

from __future__ import annotations

import asyncio
from typing import Any

from driver import RATE, Seen, Setup, check, heard, main, same
from loguru import logger
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    FunctionCallResultFrame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMMessagesAppendFrame,
    LLMRunFrame,
    LLMSetToolsFrame,
    LLMUpdateSettingsFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSTextFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.realtime.events import (
    AudioConfiguration,
    AudioInput,
    InputAudioTranscription,
    SessionProperties,
    TurnDetection,
)
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner


class Watcher(BaseObserver):
    """Each frame once, when it is first pushed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Seen[Frame] = Seen()
        self._ids: set[int] = set()

    async def on_push_frame(self, data: FramePushed) -> None:
        if data.frame.id not in self._ids:
            self._ids.add(data.frame.id)
            self.seen.add(data.frame)


class Pipecat:
    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.scenario = setup.scenario
        self.watcher = Watcher()
        self.seen = self.watcher.seen
        self.items: list[Any] = []
        self.llm: OpenAIRealtimeLLMService
        self.worker: PipelineWorker
        self.running: asyncio.Task[None]

    async def connect(self) -> None:
        self.llm = OpenAIRealtimeLLMService(api_key="sk-local", base_url=f"ws://{self.setup.http}/v1/realtime")

        @self.llm.event_handler("on_conversation_item_created")
        async def created(_service: object, _item_id: str, item: object) -> None:
            self.items.append(item)

        greeting: Any = {"role": "user", "content": self.scenario["greeting"]["prompt"]}
        aggregators = LLMContextAggregatorPair(LLMContext([greeting]))
        pipeline = Pipeline([aggregators.user(), self.llm, aggregators.assistant()])
        self.worker = PipelineWorker(pipeline, observers=[self.watcher], cancel_on_idle_timeout=False)
        started = asyncio.Event()

        @self.worker.event_handler("on_pipeline_started")
        async def begun(_worker: object, _frame: object) -> None:
            started.set()

        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(self.worker)
        self.running = asyncio.create_task(runner.run())
        await started.wait()
        await self.listens()
        await self.greeted()

    async def greeted(self) -> None:
        """As its examples begin. A service whose first context comes while an answer is under way, which is when a
        person speaks first and the answer is slow, never sends what is typed later."""
        await self.worker.queue_frame(LLMRunFrame())
        await self.answered(self.scenario["greeting"]["answer"], 0)

    async def listens(self) -> None:
        """The service still listens to the server, which it stops doing after any error that it does not expect."""
        try:
            await self.llm.retrieve_conversation_item("item_nowhere")
        except Exception as error:  # noqa: BLE001 - the service raises nothing more precise
            check("item_nowhere" in str(error), f"an error without its item: {error}")
        else:
            raise AssertionError("an item that does not exist was retrieved")
        errors = [frame for frame in self.seen if isinstance(frame, ErrorFrame)]
        check(not errors, f"errors: {errors}")

    async def frame(self, kind: type[Frame], since: int = 0) -> Any:
        return await self.seen.until(lambda frame: isinstance(frame, kind), since)

    async def session_update(self) -> None:
        turns = AudioInput(transcription=InputAudioTranscription(), turn_detection=TurnDetection())
        properties = SessionProperties(instructions="Be brief.", audio=AudioConfiguration(input=turns))
        settings = OpenAIRealtimeLLMService.Settings(session_properties=properties)
        await self.worker.queue_frame(LLMUpdateSettingsFrame(delta=settings))
        await self.frame(LLMUpdateSettingsFrame)
        await self.listens()

    async def spoken_turn(self) -> None:
        spoken, since = self.scenario["spoken"], len(self.seen)
        await self.say("spoken")
        await self.frame(UserStartedSpeakingFrame, since)
        await self.frame(UserStoppedSpeakingFrame, since)
        same((await self.frame(TranscriptionFrame, since)).text, spoken["transcript"])
        await self.answered(spoken["answer"], since)

    async def say(self, part: str) -> None:
        async for piece in self.setup.speech(part):
            await self.worker.queue_frame(InputAudioRawFrame(piece, RATE, 1))

    async def answered(self, answer: str, since: int) -> None:
        """The response that first says something since then says ``answer``, as text and as sound."""
        text = await self.frame(TTSTextFrame, since)
        end = await self.frame(LLMFullResponseEndFrame, self.seen.index(text))
        frames = self.seen[since : self.seen.index(end)]
        same("".join(frame.text for frame in frames if isinstance(frame, TTSTextFrame)), answer)
        size = sum(len(frame.audio) for frame in frames if isinstance(frame, TTSAudioRawFrame))
        same(round(size / 2 / RATE, 1), round(self.setup.seconds(answer), 1))
        await self.listens()

    async def text_turn(self) -> None:
        text, since = self.scenario["text"], len(self.seen)
        await self.ask(text["prompt"])
        await self.answered(text["answer"], since)

    async def ask(self, prompt: str) -> None:
        message: Any = {"role": "user", "content": prompt}
        await self.llm.queue_frame(LLMMessagesAppendFrame([message], run_llm=True))

    async def tool_call(self) -> None:
        tool, since = self.scenario["tool"], len(self.seen)
        calls: list[object] = []

        async def weather(params: FunctionCallParams) -> None:
            calls.append(dict(params.arguments))
            await params.result_callback(tool["output"])

        self.llm.register_function(tool["name"], weather)
        schema = FunctionSchema(tool["name"], "The weather in a city", {"city": {"type": "string"}}, ["city"])
        await self.worker.queue_frame(LLMSetToolsFrame(ToolsSchema(standard_tools=[schema])))
        await self.frame(LLMSetToolsFrame, since)
        await self.listens()
        await self.ask(tool["prompt"])
        result = await self.frame(FunctionCallResultFrame, since)
        same(calls, [tool["arguments"]])
        await self.answered(tool["answer"], self.seen.index(result))

    async def interruption(self) -> None:
        part, since = self.scenario["interruption"], len(self.seen)
        await self.ask(part["prompt"])
        await self.frame(TTSAudioRawFrame, since)
        item_id = self.items[-1].id
        await asyncio.sleep(0.6)
        speaking = asyncio.create_task(self.say("interruption"))
        interruption = await self.frame(InterruptionFrame, since)
        item = await self.llm.retrieve_conversation_item(item_id)
        heard(item.content[0].transcript, part["answer"], 2, 9)
        await speaking
        after = self.seen.index(interruption)
        await self.answered(part["reply"], after)

    async def error(self) -> None:
        await self.listens()
        await self.text_turn()

    async def close(self) -> None:
        await self.worker.queue_frame(EndFrame())
        await self.running
        errors = [frame for frame in self.seen if isinstance(frame, ErrorFrame)]
        check(not errors, f"errors: {errors}")


logger.remove()
main(Pipecat)
