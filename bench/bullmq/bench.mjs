// Measures a BullMQ flow: a parent with many children. It prints one JSON object.
//
//   node bench.mjs --redis HOST:PORT --children 10000 --concurrency 100 --workers 1
//
// Redis must be one that may be emptied. seconds counts from the call that adds the flow until the parent has been processed, which
// is when all that came before it is durable, as far as Redis is told to be.
import { parseArgs } from 'node:util'
import { FlowProducer, Queue, Worker } from 'bullmq'

const { values } = parseArgs({
  options: {
    redis: { type: 'string' }, children: { type: 'string', default: '10000' }, concurrency: { type: 'string', default: '100' },
    workers: { type: 'string', default: '1' }, limit: { type: 'string', default: '300' },
  },
})
const [host, port] = (values.redis ?? '').split(':')
const children = Number(values.children)
if (!host || !port || !(children > 0)) {
  console.error('want --redis HOST:PORT and --children above 0')
  process.exit(2)
}
const connection = { host, port: Number(port), maxRetriesPerRequest: null }
const limit = setTimeout(() => {
  console.error(`the flow did not end in ${values.limit} s`)
  process.exit(1)
}, Number(values.limit) * 1000)

const flows = new FlowProducer({ connection })
const queue = new Queue('children', { connection })
let ran = 0
let parentEnded
const ended = new Promise((resolve) => { parentEnded = resolve })
const workers = []
for (let i = 0; i < Number(values.workers); i++) {
  workers.push(new Worker('children', async () => { ran++ }, { connection, concurrency: Number(values.concurrency) }))
}
const joins = new Worker('joins', async () => 'joined', { connection })
joins.on('completed', () => parentEnded())
await Promise.all([...workers, joins].map((w) => w.waitUntilReady()))

const options = { removeOnComplete: false }
const began = performance.now()
await flows.add({
  name: 'join', queueName: 'joins', data: {}, opts: options,
  children: Array.from({ length: children }, (_, i) => ({ name: 'item', queueName: 'children', data: { i }, opts: options })),
})
const added = performance.now()
await ended
const seconds = (performance.now() - began) / 1000
clearTimeout(limit)

const counts = await queue.getJobCounts('completed', 'failed', 'waiting', 'active')
if (ran !== children || counts.completed !== children) {
  console.error(`${ran} of ${children} children ran, ${counts.completed} are recorded as completed`)
  process.exit(1)
}
console.log(JSON.stringify({ seconds, add_seconds: (added - began) / 1000, children }))
await Promise.all([...workers, joins].map((w) => w.close(true)))
await Promise.all([queue.close(), flows.close()])
process.exit(0)
