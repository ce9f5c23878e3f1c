"""Figures that answer in the browser: plain scripts of ``book/assets/live``, beside a picture."""

from __future__ import annotations

from .. import paths


def html(name: str, at: str = "") -> str:
    """The live part of a figure, to follow its picture, which it replaces where its script runs.

    *at* is the address of the scripts' folder: a page loads them when the figure comes near the
    screen. Without it everything is inside, as Jupyter and Colab need it: 0.1 to 0.7 MB.
    """
    def read(file: str) -> str:
        return (paths.root() / "book" / "assets" / "live" / file).read_text(encoding="utf-8")

    def part(style: str) -> str:
        return (f'<div class="cb-live" data-live="{name}">{style}'
                f"<template>{read(f'{name}.html')}</template></div>")

    if at:
        return (part(f'<link rel="stylesheet" href="{at}/live.css">')
                + f'<script src="{at}/live.js"></script>')
    scripts = [*map(read, ("live.js", f"{name}.js", f"{name}-weights.js")), "live.watch();"]
    return part(f"<style>{read('live.css')}</style>") + "".join(
        f"<script>{script}</script>" for script in scripts)
