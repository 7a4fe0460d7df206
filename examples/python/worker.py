"""A worker of the standard library only: CARILLON_SERVER=http://localhost:8080 CARILLON_TOKEN=... python3 worker.py"""
import json, os, signal, threading, urllib.request

BASE = os.environ.get("CARILLON_SERVER", "http://localhost:8080") + "/api/v1"
stop, held, session = threading.Event(), {}, ""

def call(method, path, body=None):
    request = urllib.request.Request(BASE + path, json.dumps(body or {}).encode(), method=method, headers={
        "Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("CARILLON_TOKEN", ""), "X-Worker-Session": session})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)

def greet(attempt, log):
    log("greeting " + attempt["payload"]["name"])
    return {"text": f"Hello, {attempt['payload']['name']}!"}

def flaky(attempt, log):
    if attempt["attempt_number"] == 1:
        raise RuntimeError("not this time")

kinds = {"greet": greet, "flaky": flaky}

def run(attempt):
    lease = held[attempt["execution_id"]] = {"execution_id": attempt["execution_id"], "fencing_token": attempt["fencing_token"]}
    log = lambda text: call("POST", me + "/logs", {**lease, "lines": [{"stream": "log", "text": text}]})
    try:
        outcome = {"status": "SUCCEEDED", "result": kinds[attempt["kind"]](attempt, log)}
    except Exception as e:
        outcome = {"status": "FAILED", "retryable": True, "error": {"type": "HANDLER_ERROR", "message": repr(e)}}
    while True:  # until the server has answered: the same outcome again is accepted again
        try:
            call("POST", me + "/complete", {"outcomes": [{**lease, **outcome}]})
            break
        except OSError as e:  # an answer of 4xx says that the lease, or the session, is lost
            if getattr(e, "code", 500) < 500 or stop.wait(1): break
    del held[attempt["execution_id"]]

def slot():
    while not stop.is_set():
        try:
            for attempt in call("POST", me + "/claim", {"max": 1, "wait_seconds": 2})["attempts"]:
                run(attempt)
        except OSError as e:
            if not stop.wait(1): print("cannot claim:", e)

def beat():  # keeps the leases; the answer also says what was cancelled or lost
    while True:
        threading.Event().wait(joined["beat_seconds"])
        try: call("POST", me + "/beat", {"executions": list(held.values()), "draining": stop.is_set()})
        except OSError as e: print("a beat was not answered:", e)

joined = call("POST", "/workers", {"kinds": list(kinds), "capacity": 4})
session, me = joined["session"], "/workers/" + joined["worker_id"]
for s in (signal.SIGTERM, signal.SIGINT): signal.signal(s, lambda *_: stop.set())
threading.Thread(target=beat, daemon=True).start()
slots = [threading.Thread(target=slot) for _ in range(4)]
for t in slots: t.start()
for t in slots: t.join()  # on SIGTERM each finishes what it runs
call("DELETE", me)
