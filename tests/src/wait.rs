//! Waiting for a condition, with a deadline.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

/// Between two looks at something that cannot be watched.
const STEP: Duration = Duration::from_millis(200);

/// Looks until there is a value. Errors of single looks are kept for the message: what is waited for may well be
/// unreachable in between.
///
/// # Errors
/// Nothing came in time.
pub async fn until<T, F, L>(what: &str, within: Duration, mut look: L) -> Result<T>
where
    L: FnMut() -> F,
    F: Future<Output = Result<Option<T>>>,
{
    let deadline = Instant::now() + within;
    let mut last = None;
    loop {
        match look().await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            Err(error) => last = Some(error),
        }
        if Instant::now() >= deadline {
            match last {
                Some(error) => return Err(error.context(format!("waited {within:?} for {what}"))),
                None => bail!("waited {within:?} for {what}"),
            }
        }
        tokio::time::sleep(STEP).await;
    }
}

/// Looks again and again for the whole time: a property that must hold, not become true.
///
/// # Errors
/// It did not hold at one look.
pub async fn holds<F, L>(what: &str, during: Duration, mut look: L) -> Result<()>
where
    L: FnMut() -> F,
    F: Future<Output = Result<bool>>,
{
    let end = Instant::now() + during;
    while Instant::now() < end {
        if !look().await? {
            bail!("{what} did not hold for {during:?}");
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(())
}
