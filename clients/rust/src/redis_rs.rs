//! redis-rs in each of its modes. Its connections do not reconnect: the program opens
//! the next one, as its users' pools do.

use crate::plain::{COMPARE_AND_DELETE, Plain, commands, outage};
use crate::{Library, Result, Scene, Shown, target};
use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{Client, Connection, ConnectionLike, IntoConnectionInfo, ProtocolVersion, RedisResult, Script};
use std::time::Duration;

/// Bounds the wait for one answer: longer than a node holds a command.
const ANSWER_MAX: Duration = Duration::from_secs(5);

type Open = fn() -> RedisResult<Conn>;

enum Conn {
    Node(Connection),
    Cluster(Box<ClusterConnection>),
}

impl Conn {
    fn any(&mut self) -> &mut dyn ConnectionLike {
        match self {
            Conn::Node(c) => c,
            Conn::Cluster(c) => c.as_mut(),
        }
    }
}

pub fn libraries() -> Vec<Library> {
    vec![
        library("single/2", || single(target::node(0), ProtocolVersion::RESP2).map(Conn::Node), false),
        library("single/3", || single(target::node(0), ProtocolVersion::RESP3).map(Conn::Node), false),
        library("sentinel/2", || sentinel(ProtocolVersion::RESP2), true),
        library("sentinel/3", || sentinel(ProtocolVersion::RESP3), true),
        library("cluster/2", || cluster(ProtocolVersion::RESP2), true),
        library("cluster/3", || cluster(ProtocolVersion::RESP3), true),
    ]
}

/// A client that finds a new leader, or fails with its node.
fn library(mode: &'static str, open: Open, finds: bool) -> Library {
    let near: fn() -> String = if mode.starts_with("cluster") { || target::cluster().swap_remove(0) } else { || target::node(0) };
    let failover = if finds {
        Scene::Deadly(Box::new(move |death| match target::without_failover() {
            Some(none) => Ok(none),
            None => outage(&mut RedisRs { open, near, conn: None }, death),
        }))
    } else {
        Scene::Calm(Box::new(|| Ok(Shown::None("a client of one address does not outlive that node"))))
    };
    Library {
        name: "redis-rs",
        package: "redis",
        mode,
        scenes: vec![
            ("commands", Scene::Calm(Box::new(move || commands(&mut RedisRs { open, near, conn: None })))),
            ("failover", failover),
        ],
    }
}

fn single(url: String, protocol: ProtocolVersion) -> RedisResult<Connection> {
    let info = url.into_connection_info()?;
    let settings = info.redis_settings().clone().set_protocol(protocol);
    patient(Client::open(info.set_redis_settings(settings))?.get_connection()?)
}

fn patient(conn: Connection) -> RedisResult<Connection> {
    conn.set_read_timeout(Some(ANSWER_MAX))?;
    Ok(conn)
}

fn sentinel(protocol: ProtocolVersion) -> RedisResult<Conn> {
    let mut addrs = Vec::new();
    for url in target::sentinels() {
        addrs.push(url.into_connection_info()?.addr().clone());
    }
    let mut client = SentinelClientBuilder::new(addrs, target::master(), SentinelServerType::Master)?
        .set_client_to_redis_protocol(protocol)
        .set_client_to_sentinel_protocol(protocol)
        .build()?;
    patient(client.get_connection()?).map(Conn::Node)
}

fn cluster(protocol: ProtocolVersion) -> RedisResult<Conn> {
    let client = ClusterClient::builder(target::cluster()).use_protocol(protocol).response_timeout(ANSWER_MAX).build()?;
    Ok(Conn::Cluster(Box::new(client.get_connection()?)))
}

struct RedisRs {
    open: Open,
    near: fn() -> String, // the URL of a node, for subscriptions
    conn: Option<Conn>,
}

impl RedisRs {
    /// Lends a connection, and drops it after a failure.
    fn with_conn<T>(&mut self, run: impl FnOnce(&mut Conn) -> RedisResult<T>) -> Result<T> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => (self.open)()?,
        };
        let result = run(&mut conn);
        if conn.any().is_open() && !result.as_ref().is_err_and(|e| e.is_io_error()) {
            self.conn = Some(conn);
        }
        Ok(result?)
    }

    fn with<T>(&mut self, run: impl FnOnce(&mut dyn ConnectionLike) -> RedisResult<T>) -> Result<T> {
        self.with_conn(|conn| run(conn.any()))
    }
}

impl Plain for RedisRs {
    fn take(&mut self, key: &str, token: &str, lease: Duration) -> Result<bool> {
        let reply: Option<String> =
            self.with(|c| redis::cmd("SET").arg(key).arg(token).arg("NX").arg("PX").arg(lease.as_millis() as u64).query(c))?;
        Ok(reply.as_deref() == Some("OK"))
    }

    fn release(&mut self, key: &str, token: &str) -> Result<i64> {
        self.with(|c| Script::new(COMPARE_AND_DELETE).key(key).arg(token).invoke(c))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        self.with(|c| redis::cmd("SET").arg(key).arg(value).arg("PX").arg(60_000).query(c))
    }

    fn get(&mut self, key: &str) -> Result<Option<String>> {
        self.with(|c| redis::cmd("GET").arg(key).query(c))
    }

    fn pipeline(&mut self, key: &str) -> Result<i64> {
        let replies: Vec<i64> = self.with_conn(|conn| match conn {
            Conn::Node(c) => redis::pipe().cmd("INCR").arg(key).cmd("INCR").arg(key).cmd("INCR").arg(key).query(c),
            Conn::Cluster(c) => cluster_pipe().cmd("INCR").arg(key).cmd("INCR").arg(key).cmd("INCR").arg(key).query(c),
        })?;
        replies.last().copied().ok_or_else(|| "no replies".into())
    }

    /// In a cluster redis-rs has no transactions: the program talks to one node.
    fn transaction(&mut self, key: &str) -> Result<i64> {
        let near = self.near;
        self.with_conn(|conn| match conn {
            Conn::Node(c) => watched(c, key),
            Conn::Cluster(_) => watched(&mut single(near(), ProtocolVersion::RESP2)?, key),
        })
    }

    fn wrong_type(&mut self, key: &str) -> Result<String> {
        match self.with(|c| redis::cmd("HGET").arg(key).arg("f").query::<Option<String>>(c)) {
            Ok(reply) => Err(format!("{reply:?} and no error").into()),
            Err(e) => Ok(e.to_string().replace('"', "")), // which redis-rs puts around the code
        }
    }

    /// A subscription has a connection of its own, to any node.
    fn hear(&mut self, channel: &str, message: &str) -> Result<String> {
        let mut conn = single((self.near)(), ProtocolVersion::RESP2)?;
        let mut sub = conn.as_pubsub();
        sub.subscribe(channel)?;
        let mut other = single((self.near)(), ProtocolVersion::RESP2)?;
        redis::cmd("PUBLISH").arg(channel).arg(message).query::<i64>(&mut other)?;
        Ok(sub.get_message()?.get_payload()?)
    }
}

fn watched(c: &mut Connection, key: &str) -> RedisResult<i64> {
    redis::cmd("WATCH").arg(key).query::<()>(c)?;
    let (n,) = redis::pipe().atomic().cmd("INCR").arg(key).query(c)?;
    Ok(n)
}
