//! Keys of the operator, including those typed before the router has answered.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Maximum number of keys typed ahead.
const MOST: usize = 256;

/// Keys typed while the program waited for an answer of the router.
#[derive(Default)]
pub struct Keys(RefCell<VecDeque<KeyEvent>>);

impl Keys {
    /// Returns the next key. Waits for it at most the time `within`; `None` if there was none.
    ///
    /// # Errors
    /// If the terminal cannot be read.
    pub fn next(&self, within: Duration) -> io::Result<Option<KeyEvent>> {
        if let Some(key) = self.0.borrow_mut().pop_front() {
            return Ok(Some(key));
        }
        read(within)
    }

    /// True if the operator has pressed Ctrl-C, or the terminal is gone. Keeps other keys for [`next`](Keys::next).
    pub fn ask_to_end(&self) -> bool {
        loop {
            match read(Duration::ZERO) {
                Ok(Some(key)) if ends(key) => return true,
                Ok(Some(key)) => {
                    let mut keys = self.0.borrow_mut();
                    if keys.len() < MOST {
                        keys.push_back(key);
                    }
                }
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }
}

/// True for Ctrl-C: in raw mode the terminal sends it as a key.
pub fn ends(key: KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c')
}

fn read(within: Duration) -> io::Result<Option<KeyEvent>> {
    if !event::poll(within)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(key),
        _ => None,
    })
}
