"""From what a row needs next to a request of SGLang's scheduler."""

from __future__ import annotations

from array import array
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sglang.srt.managers.io_struct import AbortReq, TokenizedGenerateReqInput
from sglang.srt.managers.schedule_batch import (
    Modality,
    MultimodalDataItem,
    MultimodalInputFormat,
    MultimodalProcessorOutput,
)
from sglang.srt.sampling.sampling_params import SamplingParams

from voice_omni.engines.interface import Sampling
from voice_omni.engines.sglang.fed_row import FED, Told
from voice_omni.engines.sglang.hidden import WANTED
from voice_omni.engines.sglang.penalty import SaidBefore
from voice_omni.engines.sglang.rows import Abort, Ask

NEVER = -1e9
"""A logit bias that no temperature brings back. It stays finite so that a row of them alone is still a distribution."""


def request(asked: Ask | Abort | Told) -> TokenizedGenerateReqInput | AbortReq | Told:
    """``Ask`` with no ``new_tokens`` prefills its prompt into the radix cache and generates nothing."""
    if isinstance(asked, Told):
        return asked
    if isinstance(asked, Abort):
        return AbortReq(rid=asked.rid)
    penalised = bool(asked.said) and asked.sampling.repetition_penalty != 1.0
    return TokenizedGenerateReqInput(
        rid=asked.rid,
        input_text=None,
        input_ids=array("q", [*asked.prompt, *asked.said]),
        input_embeds=None,
        mm_inputs=None if asked.positions is None else _media(asked, asked.positions),
        token_type_ids=None,
        sampling_params=_sampling(asked, penalised),
        custom_logit_processor=SaidBefore.to_str() if penalised else None,
        return_logprob=False,
        logprob_start_len=-1,
        top_logprobs_num=0,
        token_ids_logprob=None,
        stream=True,
        extra_key=asked.session,
    )


def _media(asked: Ask, positions: NDArray[np.int64]) -> MultimodalProcessorOutput:
    """Rows as embeddings that have been computed already, one item for each piece, and in the place of their tokens
    what the radix cache knows them by. The models that read them (:mod:`.models`) go by the items' places alone."""
    ids = [*asked.prompt, *asked.said]
    items = []
    for given in asked.given:
        item = MultimodalDataItem(
            modality=Modality.IMAGE if given.deep else Modality.AUDIO,
            format=MultimodalInputFormat.PRECOMPUTED_EMBEDDING,
            hash=int(given.ids[0]),
            offsets=list(given.spans),
            precomputed_embeddings=torch.from_numpy(given.rows),
        )
        items.append(item)
        known = iter(given.ids.tolist())
        for first, last in given.spans:
            ids[first : last + 1] = islice(known, last + 1 - first)
    last = int(positions[:, -1].max())
    return MultimodalProcessorOutput(
        mm_items=items,
        padded_input_ids=ids,
        mrope_positions=torch.from_numpy(positions),
        # What a decode step adds to the number of positions before it.
        mrope_position_delta=torch.tensor([[last + 1 - positions.shape[1]]]),
    )


def _sampling(asked: Ask, penalised: bool) -> SamplingParams:
    sampling: Sampling = asked.sampling
    custom: dict[str, Any] = {}
    if penalised:
        custom |= {"penalty": sampling.repetition_penalty, "said": list(asked.said)}
    if asked.hidden:
        custom[WANTED] = list(asked.hidden)
    if asked.fed is not None:
        # The frame head draws as the row's own sampling says, and leaves SGLang one candidate.
        custom[FED] = asked.fed
        sampling = Sampling()
    params = SamplingParams(
        max_new_tokens=asked.new_tokens,
        temperature=sampling.temperature,
        top_k=sampling.top_k or -1,
        top_p=sampling.top_p,
        repetition_penalty=sampling.repetition_penalty,
        logit_bias={str(token): NEVER for token in sampling.suppress} or None,
        sampling_seed=sampling.seed & (2**63 - 1),
        stop_token_ids=set(asked.stop),
        ignore_eos=not asked.stop,
        custom_params=custom or None,
    )
    params.normalize(None)
    return params
