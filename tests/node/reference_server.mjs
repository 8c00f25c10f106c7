// Starts the reference server and prints its URL as one line. Stops on SIGTERM, or when stdin
// closes, so that it never outlives the test run that started it.
// Usage: node reference_server.mjs [port] [dataDir]   (or PORT, DATA_DIR, LONG_POLL_TIMEOUT_MS)
import { DurableStreamTestServer } from "@durable-streams/server"

const [port = process.env.PORT ?? "0", dataDir = process.env.DATA_DIR] = process.argv.slice(2)

const server = new DurableStreamTestServer({
  host: "127.0.0.1",
  port: Number(port),
  dataDir: dataDir || undefined,
  longPollTimeout: Number(process.env.LONG_POLL_TIMEOUT_MS ?? 30000),
})

let stopping = false
async function stop() {
  if (stopping) return
  stopping = true
  // Open long-polls would keep the process alive for their whole timeout.
  setTimeout(() => process.exit(0), 2000).unref()
  await server.stop()
  process.exit(0)
}

process.on("SIGTERM", stop)
process.on("SIGINT", stop)
process.stdin.on("end", stop)
process.stdin.on("close", stop)
process.stdin.resume()

console.log(await server.start())
