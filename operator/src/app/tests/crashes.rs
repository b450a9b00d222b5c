//! The operator is killed after every single write, and another one goes on: the end is the same.

use serde_json::{Value, json};

use super::world::Memories;
use super::{app, running, subscription, with, world};

/// Makes a change in a fresh world and compares the end of an undisturbed run with the end after a
/// kill at every write.
async fn matrix<F>(begin: F, change: impl Fn(&Memories))
where
    F: AsyncFn() -> Memories,
{
    let undisturbed = begin().await;
    let written = undisturbed.with(|state| state.writes.len());
    change(&undisturbed);
    undisturbed.settle("a").await;
    let expected = undisturbed.picture();
    let writes = undisturbed.with(|state| state.writes.len()) - written;
    assert!(
        writes > 1,
        "the change writes too little to be worth a matrix"
    );

    for at in 1..=writes {
        let world = begin().await;
        change(&world);
        assert!(world.die_after("a", at).await, "no write {at} of {writes}");
        world.settle("a").await;
        compare(&expected, &world.picture(), at, &world);
    }
    // Every operator dies after its first write, until nothing is left to write.
    let world = begin().await;
    change(&world);
    let mut lives = 0;
    while world.die_after("a", 1).await {
        lives += 1;
        assert!(lives < 200, "operators that die young get nowhere");
    }
    world.settle("a").await;
    compare(&expected, &world.picture(), 0, &world);
}

fn compare(expected: &Value, got: &Value, at: usize, world: &Memories) {
    if expected == got {
        return;
    }
    let mut differences = Vec::new();
    list(expected, got, "", &mut differences);
    panic!(
        "killed after write {at}:\n{}\nwrites: {:#?}",
        differences.join("\n"),
        world.with(|state| state.writes.clone())
    );
}

fn list(one: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one
                .keys()
                .chain(other.keys().filter(|key| !one.contains_key(*key)))
            {
                let null = Value::Null;
                list(
                    one.get(key).unwrap_or(&null),
                    other.get(key).unwrap_or(&null),
                    &format!("{path}/{key}"),
                    found,
                );
            }
        }
        _ if one != other => found.push(format!("{path}: {one} became {other}")),
        _ => {}
    }
}

/// Reads as well as writes: what an operator had learned and not acted on is learned again.
#[tokio::test]
async fn start_killed_after_every_call() {
    let undisturbed = world();
    undisturbed.apply_app(app());
    undisturbed.settle("a").await;
    let expected = undisturbed.picture();
    let calls = undisturbed.with(|state| state.calls);
    assert!(calls > 50, "{calls} calls make no start");
    let mut deaths = 0;
    for at in 1..=calls {
        let world = world();
        world.apply_app(app());
        deaths += usize::from(world.die_after_call("a", at).await);
        world.settle("a").await;
        compare(&expected, &world.picture(), at, &world);
    }
    // The passes that find nothing to do any more make calls too.
    assert!(deaths >= calls - 1, "{deaths} of {calls}");
}

#[tokio::test]
async fn start() {
    matrix(async || world(), |world| world.apply_app(app())).await;
}

#[tokio::test]
async fn new_subscription() {
    matrix(running, |world| {
        world.with(|state| state.topics.insert("more".to_owned(), 3));
        world.apply_app(with(
            app(),
            "/spec/subscriptions",
            json!([subscription("b", "more"), subscription("s", "in")]),
        ));
    })
    .await;
}

#[tokio::test]
async fn new_configuration() {
    matrix(running, |world| {
        world.apply_app(with(app(), "/spec/restartNonce", json!("x")))
    })
    .await;
}

#[tokio::test]
async fn suspend() {
    matrix(running, |world| {
        world.apply_app(with(app(), "/spec/suspend", json!(true)))
    })
    .await;
}

#[tokio::test]
async fn growing_volumes() {
    matrix(running, |world| {
        world.apply_app(with(app(), "/spec/state/volume/size", json!("2Gi")))
    })
    .await;
}

#[tokio::test]
async fn made_anew() {
    matrix(running, |world| {
        world.delete_app("a");
        world.apply_app(app());
    })
    .await;
}

#[tokio::test]
async fn made_anew_and_discarded() {
    matrix(running, |world| {
        world.delete_app("a");
        world.apply_app(with(app(), "/spec/state/onRecreate", json!("discard")));
    })
    .await;
}

#[tokio::test]
async fn deletion() {
    matrix(
        async || {
            let world = world();
            let mut spec = with(app(), "/spec/topics", json!({"onDelete": "delete"}));
            spec["spec"]["state"]["volume"]["onDelete"] = json!("delete");
            world.apply_app(spec);
            world.settle("a").await;
            world
        },
        |world| world.delete_app("a"),
    )
    .await;
}
