"""The commands that measure a predicted point, as text."""

from specroof.questions.mock import Mock


def mock_text(found: Mock) -> str:
    """Return the commands, the notes and the prediction; all but commands are shell comments."""
    curve, whole = found.curve, found.counted
    return "\n".join(
        [
            *(f"# {title}\n{command}\n" for title, command in found.commands),
            *(f"# note: {note}" for note in found.notes),
            f"# predicted by engine {curve.engine}, prefills counted as the benchmark does: "
            f"{whole.tokens_per_s[0, 0, 0]:.0f} tok/s without drafts, "
            f"{whole.tokens_per_s[0, 0, -1]:.0f} with, {whole.speedup[0, 0, -1]:.2f}x "
            f"({curve.speedup[0, 0, -1]:.2f}x while decoding)",
        ]
    )
