//! What a job takes over from this process.

use anyhow::Context;
use cleave_server::api::Surroundings;
use cleave_wire::job::{Bounds, Limit, Size};
use rustix::process::{Resource, getrlimit};
use std::env;

const LIMITS: [(Limit, Resource); 9] = [
    (Limit::Core, Resource::Core),
    (Limit::Cpu, Resource::Cpu),
    (Limit::Data, Resource::Data),
    (Limit::FileSize, Resource::Fsize),
    (Limit::LockedMemory, Resource::Memlock),
    (Limit::OpenFiles, Resource::Nofile),
    (Limit::Processes, Resource::Nproc),
    (Limit::Stack, Resource::Stack),
    (Limit::AddressSpace, Resource::As),
];

/// Umask where the system does not tell it.
const COMMON_UMASK: u32 = 0o022;

/// This process, with a terminal of that size if the job gets one.
pub fn here(terminal: Option<Size>) -> anyhow::Result<Surroundings> {
    let directory = env::current_dir().context("the working directory is gone: cd somewhere")?;
    let directory = directory.into_os_string().into_string();
    let directory = directory.map_err(|path| {
        anyhow::anyhow!("{}: not UTF-8; go elsewhere or use --dir", path.display())
    })?;
    // Variables that are no text can't travel in JSON.
    let env = env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)));
    let limits = LIMITS.into_iter().map(|(limit, resource)| {
        let now = getrlimit(resource);
        let bounds = Bounds {
            soft: now.current,
            hard: now.maximum,
        };
        (limit, bounds)
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    Ok(Surroundings {
        env: env.collect(),
        directory,
        umask: umask(&status).unwrap_or(COMMON_UMASK),
        limits: limits.collect(),
        terminal,
    })
}

fn umask(status: &str) -> Option<u32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_read() {
        assert_eq!(umask("Name:\tx\nUmask:\t0077\n"), Some(0o077));
        assert_eq!(umask("Name:\tx\n"), None);
        let here = here(None).unwrap();
        assert!(here.directory.starts_with('/'));
        assert_eq!(here.limits.len(), LIMITS.len());
    }
}
