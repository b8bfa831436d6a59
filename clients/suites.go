package main

import "os"

// suites is the table of suites; each has a folder of its name. Suites with little preparation come first: the others
// are prepared while these run against redis-server. All preparation is over before the leader of lockd dies.
var suites = []*suite{
	{
		name: "shell", summary: "every mode of redis-cli, and redis-benchmark",
		command: []string{"sh", "suite.sh"},
		runtime: []string{"redis-cli", "--version"},
	},
	{
		name: "go", summary: "go-redis, redsync, redislock, rueidis and rueidislock, redigo",
		install: []string{"go", "build", "-o", os.DevNull, "."},
		command: []string{"go", "run", "."},
		runtime: []string{"go", "version"},
		byScene: true,
	},
	{
		name: "node", summary: "ioredis 5 and 6, node-redis 4 to 6, redlock, redis-semaphore, bullmq, socket.io",
		install: []string{"npm", "ci", "--prefer-offline"},
		command: []string{"node", "run.js"},
		runtime: []string{"node", "--version"},
		byScene: true,
	},
	{
		name: "java", summary: "Jedis, Lettuce, Spring Data Redis, ShedLock, Redisson",
		install: []string{"mvn", "-q", "-B", "-ntp", "-C", "process-classes"},
		// The servers go first: clients that keep them from their heartbeats would make them elect. A run is too short
		// for the compiler of hot code to pay off.
		command: []string{
			"nice", "java", "-XX:TieredStopAtLevel=1", "-cp", "target/classes:target/lib/*", "clients.Main",
		},
		runtime: []string{"java", "--version"},
		byScene: true,
	},
	{
		name: "python", summary: "redis-py 5 to 8, python-redis-lock, pottery, aioredlock, RQ, portalocker",
		install: []string{"python3", "environments.py"},
		command: []string{"python3", "run.py"},
		runtime: []string{"python3", "--version"},
		byScene: true,
	},
	{
		name: "rust", summary: "redis-rs, rslock",
		install: []string{"cargo", "build", "--quiet", "--locked"},
		command: []string{"cargo", "run", "--quiet", "--locked"},
		runtime: []string{"cargo", "--version"},
	},
}
