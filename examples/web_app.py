"""A FastAPI app with a site inside: it answers, takes true labels by id, and keeps what it knows over a restart.

Run it as a script to see 2,000 requests, with a restart in the middle; or serve it:

    python examples/web_app.py
    uvicorn --app-dir examples web_app:app

A `Site` is safe in several threads, so the routes are plain functions. State is saved when the app stops: if a crash
must lose nothing, run `cosend serve` next to the app, which writes every decision to disk before it answers.
"""

import asyncio
import random
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from cosend import Site, axes
from cosend.errors import DecisionError

MODELS = {"young": lambda visit: visit["pressure"] > 125, "old": lambda visit: visit["pressure"] > 150}


class Visit(BaseModel):
    age: float
    pressure: float


class TrueLabel(BaseModel):
    id: int
    label: bool


@asynccontextmanager
async def lifespan(app):
    app.state.site = Site("clinic", classifiers=MODELS, context=axes.Feature("age", range=(0, 100)))
    if app.state.file.exists():
        app.state.site.load(app.state.file)
    yield
    app.state.site.save(app.state.file)


app = FastAPI(lifespan=lifespan)
app.state.file = Path("clinic.cosend")


@app.post("/classify")
def classify(visit: Visit):
    decision = app.state.site.classify(visit.model_dump())
    return {"id": decision.id, "label": decision.label, "arm": decision.arm}


@app.post("/labels")
def learn(given: TrueLabel):
    try:
        app.state.site.learn(given.id, given.label)
    except DecisionError as error:  # unknown, expired, or labelled already
        return {"learnt": False, "why": str(error)}
    return {"learnt": True}


async def play():
    """Send 2,000 visits to the app in this process, and their true labels 20 visits later."""
    app.state.file = Path(tempfile.mkdtemp()) / "clinic.cosend"
    draw, correct, waiting = random.Random(1), {"young": 0, "old": 0, "cosend": 0}, []
    for _ in range(2):  # the app stops and starts: what it knows, and what waits for labels, is still there
        transport = httpx.ASGITransport(app=app)
        async with lifespan(app), httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            for _ in range(1_000):
                visit = {"age": draw.uniform(0, 100), "pressure": draw.gauss(135, 20)}
                truth = visit["pressure"] > (125 if visit["age"] < 50 else 150)
                answer = (await client.post("/classify", json=visit)).json()
                correct["cosend"] += answer["label"] == truth
                for name, model in MODELS.items():
                    correct[name] += model(visit) == truth
                waiting.append({"id": answer["id"], "label": truth})
                if len(waiting) > 20:
                    await client.post("/labels", json=waiting.pop(0))
    for name, count in correct.items():
        print(f"{name}: {count / 2_000:.1%} correct")


if __name__ == "__main__":
    asyncio.run(play())
