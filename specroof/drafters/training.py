"""What it costs to train a drafter: arithmetic, and the hidden states that it learns from."""

from dataclasses import dataclass
from typing import Final

from specroof.architecture.draft_heads import DraftHead
from specroof.architecture.model import Architecture
from specroof.cost import ForwardPass, forward_cost
from specroof.drafters.heads import fitted
from specroof.units import dtype_bytes

#: Share of the bf16 peak that training of a drafter reaches: least, usual and most.
#:
#: Source: 30 minutes an epoch of 68 000 samples (1.2 TB of hidden states, 540 tokens each) on
#: 8 H100, EAGLE-3 of Llama-3.1-8B with 7 unrolled steps, give 4.4 %. The ends are a judgement:
#: two more printed trainings do not say how long their samples were: 10 h on 8 H100 for 320 000
#: samples of Llama 4 fit between the ends if a sample has 800 to 2100 tokens, and 15 to 20 minutes
#: on 4 H100 for 5 epochs of 5 000 samples of Qwen3-8B if it has 640 to 1700.
TRAINING_SHARE: Final = (0.03, 0.044, 0.08)
#: Bytes a second at which a node of so many devices writes hidden states: 1.2 TB in 20 minutes, on
#: 8 H100 of one node.
WRITE_BYTES_PER_S: Final = 1e9
WRITING_DEVICES: Final = 8
#: Steps that a kind of drafter is unrolled for, its own predictions as input; of others the tokens
#: of a block.
#:
#: Source: EAGLE-3, arXiv:2503.01840, *training-time test*; SafeAILab/EAGLE unrolls 7 steps.
#: Medusa's heads, arXiv:2401.10774, section 2.2.1: all of them in one pass.
UNROLLED_STEPS: Final = {"eagle3": 7, "p_eagle": 7, "medusa": 1}
_BACKWARD: Final = 3.0  # forward once, gradients of activations and of weights once each


@dataclass(frozen=True, slots=True)
class TrainingWork:
    """What training does for each token of a sample.

    Parameters
    ----------
    flops
        Of the drafter, forward and backward, and of the target's head, which it learns from.
    stored_bytes
        Hidden states of the target that are kept for it.
    """

    flops: float
    stored_bytes: float


def training_work(
    target: Architecture, head: DraftHead, sample_len: float, unrolled_steps: int
) -> TrainingWork:
    r"""Return what training does for each token.

    .. math:: F = 3 (u F_{drafter} + F_{fusion}) + F_{head}, \quad b = (k + 1) \, h \, b_{elem}

    Parameters
    ----------
    target, head
        The model that is served, and its drafter.
    sample_len
        Tokens of a sample.
    unrolled_steps
        u: forward passes through the layers for each token.

    Counts
        3 forward passes for a training step, attention within a sample, and the target's
        probabilities, made again from its last hidden state. Of hidden states, k that the drafter
        takes and the last one, which is one of them where k is 1.
    Ignores
        the optimizer's own arithmetic and traffic, and recomputed activations.
    Source
        Kaplan et al. 2020, arXiv:2001.08361, table 1 (6 FLOP a parameter and token); EAGLE-3,
        arXiv:2503.01840, section 3 (unrolled steps).

    Examples
    --------
    >>> from specroof import load_model
    >>> from specroof.architecture.draft_heads import usual_eagle3
    >>> llama = load_model("meta-llama/Llama-3.1-8B-Instruct")
    >>> work = training_work(llama, usual_eagle3(llama), 540, 7)
    >>> work.stored_bytes, f"{work.flops:.2e}"  # 4 hidden states of 4096 in bf16
    (32768.0, '1.73e+10')
    """
    head = fitted(head, target)
    sample = ForwardPass(batch_size=1, query_len=sample_len, context_len=0)
    drafter = sum(float(op.count * op.flops) for op in forward_cost(head.model, sample))
    fusion = 2.0 * sample_len * sum(linear.n_params for linear in head.fusion)
    teacher = 2.0 * sample_len * target.head.n_params
    states = head.taps + (head.taps > 1) if head.target_size is not None else 1
    return TrainingWork(
        (_BACKWARD * (unrolled_steps * drafter + fusion) + teacher) / sample_len,
        states * target.hidden_size * dtype_bytes(target.activation_dtype),
    )
