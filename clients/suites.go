package main

// suites is the table of suites; each has a folder of its name.
var suites = []*suite{
	{
		name: "go", summary: "go-redis, redsync, redislock, rueidis and rueidislock, redigo",
		command: []string{"go", "run", "."},
	},
}
