// The official server suite, pointed at the server named in the environment.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

const baseUrl = process.env.CONFORMANCE_URL
if (!baseUrl) throw new Error("CONFORMANCE_URL names the server under test")

runConformanceTests({ baseUrl, longPollTimeoutMs: 500, subscriptions: true })
