//! What the tests of whole models share.

use std::io::Write;
use std::sync::Arc;

use cera_core::width::ThreadCount;
use cera_core::{Runtime, Settings};

/// A runtime on the tier under test. When dropped, it reports its hits to the folder that `CERA_HITS_DIR` names, one
/// line `<tier> <kernel id> <count>` per kernel that ran.
pub(crate) struct TestRuntime(Arc<Runtime>);

impl TestRuntime {
    pub(crate) fn with_threads(threads: usize) -> TestRuntime {
        let mut settings = Settings::from_env().unwrap();
        settings.threads.set_argument(ThreadCount::new(threads).unwrap());
        TestRuntime(Runtime::from_settings(&settings).unwrap())
    }

    pub(crate) fn share(&self) -> Arc<Runtime> {
        self.0.clone()
    }
}

impl Drop for TestRuntime {
    fn drop(&mut self) {
        let Some(dir) = std::env::var_os("CERA_HITS_DIR") else { return };
        let name = format!("{}-{:?}.hits", std::process::id(), std::thread::current().id());
        let path = std::path::Path::new(&dir).join(name.replace(['(', ')'], "_"));
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        let tier = self.0.table().tier().label();
        for hits in self.0.hits() {
            writeln!(file, "{tier} {} {}", hits.kernel, hits.total()).unwrap();
        }
    }
}
