//! A way to a broker on which answers about the cluster can be made to name no broker, as those of one do that has just started
//! or is about to stop.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Key of Kafka's request for metadata.
const METADATA: i16 = 3;
/// From this version on its answer has compact arrays and texts.
const COMPACT: i16 = 9;
/// Key of Kafka's request for a group's coordinator, to which a client makes a connection of its own.
const FIND_COORDINATOR: i16 = 10;
/// Up to this version its answer ends with the coordinator's port.
const PORT_LAST: i16 = 2;

#[derive(Default)]
struct Shared {
    blind: AtomicBool,
    blinded: AtomicU32,
}

pub(crate) struct BlindingProxy {
    address: String,
    shared: Arc<Shared>,
}

impl BlindingProxy {
    /// In front of the broker at `upstream`, `host:port`.
    pub(crate) fn start(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let (upstream, held) = (upstream.to_owned(), Arc::clone(&shared));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(broker)) = (client, TcpStream::connect(&upstream)) else {
                    continue;
                };
                carry(&client, &broker, own, &held);
            }
        });
        Self {
            address: format!("127.0.0.1:{own}"),
            shared,
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// From now on answers name no broker.
    pub(crate) fn blind(&self) {
        self.shared.blind.store(true, Ordering::SeqCst);
    }

    pub(crate) fn see(&self) {
        self.shared.blind.store(false, Ordering::SeqCst);
    }

    /// Answers that named no broker.
    pub(crate) fn blinded(&self) -> u32 {
        self.shared.blinded.load(Ordering::SeqCst)
    }
}

/// Both directions of one connection, on threads that end with it.
fn carry(client: &TcpStream, broker: &TcpStream, own: u16, shared: &Arc<Shared>) {
    let asked = Arc::new(Mutex::new(HashMap::new()));
    let (mut from, mut to) = (client.try_clone().unwrap(), broker.try_clone().unwrap());
    let noted = Arc::clone(&asked);
    thread::spawn(move || {
        while let Some(frame) = frame(&mut from) {
            let (key, version) = (i16_at(&frame, 0), i16_at(&frame, 2));
            noted
                .lock()
                .unwrap()
                .insert(i32_at(&frame, 4), (key, version));
            if write(&mut to, &frame).is_none() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    let (mut from, mut to) = (broker.try_clone().unwrap(), client.try_clone().unwrap());
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        while let Some(mut frame) = frame(&mut from) {
            match asked.lock().unwrap().remove(&i32_at(&frame, 0)) {
                Some((METADATA, version)) => {
                    assert!(version >= COMPACT, "metadata of version {version}");
                    let blind = shared.blind.load(Ordering::SeqCst);
                    frame = rewritten(&frame, own, blind);
                    shared.blinded.fetch_add(u32::from(blind), Ordering::SeqCst);
                }
                Some((FIND_COORDINATOR, version)) => {
                    assert!(version <= PORT_LAST, "coordinator of version {version}");
                    let port = frame.len() - 4;
                    frame[port..].copy_from_slice(&i32::from(own).to_be_bytes());
                }
                Some(_) | None => {}
            }
            if write(&mut to, &frame).is_none() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// The answer with its one broker behind the proxy's port, or with no broker and no controller.
fn rewritten(answer: &[u8], own: u16, blind: bool) -> Vec<u8> {
    // correlation id, no tags, throttle time
    let brokers = 4 + 1 + 4;
    assert_eq!(answer[brokers], 2, "one broker, as a compact array");
    let host = brokers + 1 + 4;
    let port = host + usize::from(answer[host]);
    // a rack of fewer than 127 bytes or none, and no tags
    let rack = port + 4;
    let end = rack + usize::from(answer[rack]).max(1) + 1;
    let cluster = usize::from(answer[end]).max(1);
    let controller = end + cluster;
    let mut new = answer[..brokers].to_vec();
    if blind {
        new.push(1);
        new.extend(&answer[end..controller]);
        new.extend((-1_i32).to_be_bytes());
        new.extend(&answer[controller + 4..]);
    } else {
        new.extend(&answer[brokers..port]);
        new.extend(i32::from(own).to_be_bytes());
        new.extend(&answer[rack..]);
    }
    new
}

fn frame(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).ok()?;
    let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).ok()?];
    from.read_exact(&mut frame).ok()?;
    Some(frame)
}

fn write(to: &mut TcpStream, frame: &[u8]) -> Option<()> {
    let length = i32::try_from(frame.len()).ok()?;
    to.write_all(&length.to_be_bytes()).ok()?;
    to.write_all(frame).ok()
}

fn i16_at(frame: &[u8], at: usize) -> i16 {
    i16::from_be_bytes(frame[at..at + 2].try_into().unwrap())
}

fn i32_at(frame: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(frame[at..at + 4].try_into().unwrap())
}
