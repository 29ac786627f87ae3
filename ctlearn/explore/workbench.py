"""Workbench: a memory composed of five choices, beside every mechanism of the package.

The memory is that of `ctlearn.composed`, and the jobs are those of
`ctlearn.tasks.four_jobs`: recall, rebinding, drift and tracking. An error is what is
missed of the right answers at the best scale, from 0 to 1. Every mechanism is at the
best of a few settings for each job, and the composed memory is as it is set.
"""

import functools
from dataclasses import astuple
from typing import Any

import numpy as np

from ctlearn import composed, plots
from ctlearn.composed import LOOK, Choices
from ctlearn.explore.explorable import Explorable, choice, number
from ctlearn.mechanism import Cell
from ctlearn.mixers import mechanisms
from ctlearn.tasks import four_jobs

_SAME = 0.005  # errors that differ by less are one
_jobs = functools.cache(four_jobs.jobs)
_TITLES = {name: mechanism.title for name, mechanism in mechanisms().items()}


def compute(
    *,
    function_class: str = "matrix",
    objective: str = "squared",
    optimiser: str = "step",
    schedule: str = "token",
    control: str = "none",
    beta: float = 1.0,
    keep: float = 0.9,
    beside: str = "gated_delta_rule",
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    The first five are the choices of `ctlearn.composed`; `beta` is the step size and
    `keep` what a decay keeps at a token. Returns, for the four jobs, errors [4] (of the
    composed memory), other [4] (of the mechanism `beside` it) and better [4] (how many
    of all mechanisms have an error that is smaller by more than 0.005).
    """
    choices = Choices(function_class, objective, optimiser, schedule, control)
    every = np.array([list(errors.values()) for errors in four_jobs.table().values()])
    with np.errstate(all="ignore"):
        errors = np.array([
            four_jobs.error(
                composed.run(job.q, job.k, job.v, choices, keep=keep, beta=beta),
                job.wanted,
            )
            for job in _jobs().values()
        ])  # fmt: skip
    return {
        "errors": errors,
        "other": list(four_jobs.table()[beside].values()),
        "better": (every < errors - _SAME).sum(axis=0),
    }


class Workbench(Explorable):
    """The explorable of the seventeenth chapter; its settings are `compute`'s."""

    title = "Five choices, one memory"

    function_class = choice(
        {"matrix": "a matrix", "features": "a matrix of features"}, "Function class"
    )
    objective = choice(
        {"squared": "squared error", "capped": "capped error", "dot": "dot product"},
        "Objective",
    )
    optimiser = choice(
        {"step": "one step", "momentum": "momentum", "newton": "Newton step"},
        "Optimiser",
    )
    schedule = choice(
        {
            "token": "every token",
            "batch": f"batches of {LOOK}",
            "window": f"last {LOOK} pairs",
        },
        "Schedule",
    )
    control = choice(
        {"none": "none", "rate": "one decay", "channels": "one for each channel"},
        "Memory control",
    )
    beta = number(1.0, 0.05, 2.0, 0.05, "step size $β$", role="rate")
    keep = number(
        0.9, 0.5, 1.0, 0.01, "kept $α$", role="decay",
        when={"control": ["rate", "channels"]},
    )  # fmt: skip
    beside = choice(
        _TITLES, "beside it", default="gated_delta_rule", role="query", menu=True
    )

    @classmethod
    def constants(cls) -> dict[str, Any]:
        """Every mechanism with its cells and errors, and the cell of every choice."""
        named = {
            name: {
                "title": mechanism.title.partition(" (")[0],
                "cells": [_words(cell) for cell in mechanism.cells],
                "errors": list(four_jobs.table()[name].values()),
            }
            for name, mechanism in mechanisms().items()
        }
        cells = {" ".join(one): _words(one.cell) for one in composed.every()}
        sizes = {"T": four_jobs.T, "D_K": four_jobs.D_K, "D_V": four_jobs.D_V}
        sizes |= {"SEEDS": four_jobs.SEEDS, "BOUND": four_jobs.KEYS}
        rates = {"DRIFT": four_jobs.DRIFT, "LOOK": LOOK, "CAP": composed.CAP}
        rates |= {"RIDGE": composed.RIDGE, "MOMENTUM": composed.MOMENTUM}
        return {"NAMED": named, "CELLS": cells, "JOBS": list(_jobs())} | (sizes | rates)

    def figure(self) -> plots.Figure:
        """The errors of all mechanisms at the four jobs, and of the composed memory."""
        x, jobs = self.numbers(), list(_jobs())
        fig, ax = plots.figure(5.6, 2.6)
        every = [list(errors.values()) for errors in four_jobs.table().values()]
        for errors in every:
            ax.plot(errors, range(4), "|", color=plots.INK, ms=9, alpha=0.3, lw=0)
        ring = {"color": plots.colour("query"), "mfc": "none", "ms": 9, "lw": 0}
        ax.plot(x["other"], range(4), "o", **ring)
        ax.plot(x["errors"], range(4), "o", color=plots.colour("state"), ms=7, lw=0)
        ax.set(ylim=(3.5, -0.5), xlim=(-0.03, 1.03), yticks=range(4), yticklabels=jobs)
        ax.set(xlabel="error: 0 all right, 1 nothing known")
        ax.grid(visible=False, axis="y")
        pairs = zip(jobs, x["errors"], x["other"], strict=True)
        each = ", ".join(f"{job} {own:.2f} and {its:.2f}" for job, own, its in pairs)
        return plots.show(
            fig,
            alt=(
                f"Errors at four jobs, a stroke for each of {len(every)} mechanisms, a "
                "disc for the composed memory and a ring for the one beside it, "
                f"{_TITLES[self.beside]}. Disc and ring: {each}."
            ),
            caption=(
                "The composed memory (disc) at four jobs, beside every mechanism of "
                "the package at its best settings (strokes)."
            ),
        )


def _words(cell: Cell) -> str:
    return " | ".join(astuple(cell))
