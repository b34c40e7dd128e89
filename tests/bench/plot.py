"""Lines over time as an SVG, one panel below the other."""

from collections.abc import Sequence

WIDTH, HEIGHT, LEFT, GAP = 720, 110, 90, 40

Points = Sequence[tuple[float, float]]


def svg(title: str, panels: dict[str, Points]) -> str:
    """Each panel by what it shows; its points are (seconds, value), and its scale begins at 0."""
    height = GAP + len(panels) * (HEIGHT + GAP)
    parts = [
        _panel(name, points, GAP + number * (HEIGHT + GAP))
        for number, (name, points) in enumerate(panels.items())
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + LEFT + GAP}" height="{height}"'
        f' font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="{LEFT}" y="20" font-size="14">{title}</text>{"".join(parts)}</svg>\n'
    )


def _panel(name: str, points: Points, top: int) -> str:
    last = max((seconds for seconds, _ in points), default=0) or 1
    most = max((value for _, value in points), default=0) or 1
    line = " ".join(
        f"{LEFT + seconds / last * WIDTH:.1f},{top + HEIGHT - value / most * HEIGHT:.1f}"
        for seconds, value in points
    )
    bottom = top + HEIGHT
    return (
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>'
        f'<polyline points="{line}" fill="none" stroke="#06c" stroke-width="1.5"/>'
        f'<text x="{LEFT + 6}" y="{top + 16}">{name}</text>'
        f'<text x="{LEFT - 6}" y="{top + 12}" text-anchor="end">{most:.4g}</text>'
        f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">0</text>'
        f'<text x="{LEFT + WIDTH}" y="{bottom + 16}" text-anchor="end">{last:.0f} s</text>'
    )
