//! Every oracle is shown a scene that it must object to, and one that comes close and is right.
//!
//! A scene that breaks one property breaks no other, and passes unseen once that one oracle is switched off: so every
//! oracle is needed, and none rests on another.

mod script;
mod safety;
mod state;
mod clients;
mod disks;
mod premises;
mod judge;
