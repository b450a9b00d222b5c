//! Passes over a world in memory.

mod convergence;
mod crashes;
mod life;
mod objects;
mod placement;
mod refusals;
mod rescales;
mod workers;
mod world;

use serde_json::{Value, json};

use self::world::Memories;

/// A subscription that reads `input` and writes `<name>-out`.
fn subscription(name: &str, input: &str) -> Value {
    json!({
        "name": name,
        "input": {
            "topic": input, "format": "json",
            "columns": [{"name": "user", "type": "string"}, {"name": "amount", "type": "int64"}, {"name": "ts", "type": "int64"}],
            "eventTime": {"field": "ts", "unit": "ms"},
        },
        "partitionKey": "user",
        "windows": [{
            "name": "w", "tumbling": {"size": "1m"}, "keys": ["user"],
            "aggregates": [{"sum": "amount", "as": "total"}],
        }],
        "output": {"topic": format!("{name}-out"), "messageKey": "user"},
    })
}

/// An app `a` with one subscription `s` over the topic `in`, on two pods.
fn app() -> Value {
    json!({
        "metadata": {"name": "a"},
        "spec": {
            "replicas": 2,
            "kafka": {"bootstrapServers": "kafka:9092"},
            "subscriptions": [subscription("s", "in")],
            "state": {"volume": {"size": "1Gi"}},
        }
    })
}

fn with(mut app: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    app.pointer_mut(parent).unwrap()[key] = value;
    app
}

/// A world with a broker that has the topic `in` of four partitions.
fn world() -> Memories {
    let world = Memories::default();
    world.with(|state| state.topics.insert("in".to_owned(), 4));
    world
}

/// The same with the app running.
async fn running() -> Memories {
    let world = world();
    world.apply_app(app());
    world.settle("a").await;
    assert!(world.is_ready("a"), "{:#?}", world.status("a"));
    world
}
