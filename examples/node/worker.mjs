// A worker in Node.js without dependencies: CARILLON_SERVER=http://localhost:8080 CARILLON_TOKEN=... node worker.mjs
const base = (process.env.CARILLON_SERVER ?? 'http://localhost:8080') + '/api/v1'
const held = new Map()
const sleep = ms => new Promise(wake => setTimeout(wake, ms))
let session = '', stopping = false

async function call(method, path, body = {}) {
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${process.env.CARILLON_TOKEN}`, 'X-Worker-Session': session }
  const answer = await fetch(base + path, { method, headers, body: JSON.stringify(body) })
  const data = await answer.json()
  if (!answer.ok) throw Object.assign(new Error(data.detail), { status: answer.status })
  return data
}

const kinds = {
  async greet({ payload }, log) {
    await log(`greeting ${payload.name}`)
    return { text: `Hello, ${payload.name}!` }
  },
  async flaky({ attempt_number }) {
    if (attempt_number === 1) throw new Error('not this time')
  },
}

async function run(attempt) {
  const lease = { execution_id: attempt.execution_id, fencing_token: attempt.fencing_token }
  held.set(attempt.execution_id, lease)
  const log = text => call('POST', me + '/logs', { ...lease, lines: [{ stream: 'log', text }] })
  const outcome = await kinds[attempt.kind](attempt, log).then(result => ({ status: 'SUCCEEDED', result }),
    e => ({ status: 'FAILED', retryable: true, error: { type: 'HANDLER_ERROR', message: String(e) } }))
  for (let answered = false; !answered;) { // the same outcome again is accepted again
    answered = await call('POST', me + '/complete', { outcomes: [{ ...lease, ...outcome }] }).then(
      () => true, e => e.status < 500 || sleep(1000)) // 4xx: the lease, or the session, is lost
  }
  held.delete(attempt.execution_id)
}

async function slot() {
  while (!stopping) {
    const { attempts } = await call('POST', me + '/claim', { max: 1, wait_seconds: 2 }).catch(async e => {
      console.error('cannot claim:', e.message)
      await sleep(1000)
      return { attempts: [] }
    })
    for (const attempt of attempts) await run(attempt)
  }
}

// Keeps the leases; the answer also says what was cancelled or lost.
const beat = () => call('POST', me + '/beat', { executions: [...held.values()], draining: stopping }).catch(e => console.error('a beat was not answered:', e.message))

for (const s of ['SIGTERM', 'SIGINT']) process.on(s, () => { stopping = true })
const joined = await call('POST', '/workers', { kinds: Object.keys(kinds), capacity: 4 })
const me = `/workers/${joined.worker_id}`
session = joined.session
const beats = setInterval(beat, joined.beat_seconds * 1000)
await Promise.all([slot(), slot(), slot(), slot()]) // on SIGTERM each finishes what it runs
clearInterval(beats)
await call('DELETE', me)
