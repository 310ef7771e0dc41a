//! The packet filter machine: classic BPF, as `tcpdump -d` prints it.
//!
//! Another module compiles an expression once; the resulting program runs here for every packet. A program is checked and decoded when it
//! is made. All jumps lead forward and stay inside the program, so it ends. A packet does not match if the program loads bytes beyond the
//! packet's end, or divides by zero, as in the kernel.

use std::fmt;
use std::str::FromStr;

/// Maximum number of instructions of a program, as in Linux (`BPF_MAXINSNS`).
const LONGEST: usize = 4096;
/// Lowest offset outside of the packet's data. With this offset and higher ones, Linux programs address
/// headers and packet metadata (`SKF_LL_OFF`).
const BESIDE: u32 = 0xffe0_0000;
/// Number of scratch memory words.
const WORDS: usize = 16;

/// An encoded instruction (`linux/filter.h`, `struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Number of instructions to skip if a test is true.
    pub jt: u8,
    /// Number of instructions to skip if the test is false.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

impl FromStr for Instruction {
    type Err = BpfError;

    /// Parses four decimal numbers, a line of `tcpdump -ddd`.
    fn from_str(text: &str) -> Result<Instruction, BpfError> {
        let mut numbers = text.split_whitespace().map(str::parse::<u32>);
        let mut next = || numbers.next().and_then(Result::ok);
        let all = || Some([next()?, next()?, next()?, next()?]);
        let refused =
            || BpfError(format!("\"{text}\" is not a BPF instruction: expected four decimal numbers"));
        let [code, jt, jf, k] = { all }().ok_or_else(refused)?;
        match (u16::try_from(code), u8::try_from(jt), u8::try_from(jf)) {
            (Ok(code), Ok(jt), Ok(jf)) => Ok(Instruction { code, jt, jf, k }),
            _ => Err(refused()),
        }
    }
}

/// The reason why instructions are not a valid program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpfError(String);

impl fmt::Display for BpfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BpfError {}

/// A register of the machine.
#[derive(Clone, Copy, Debug)]
enum Register {
    A,
    X,
}

/// Source of a value.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// A constant of the program.
    Number(u32),
    /// The register X.
    X,
}

/// Value to load.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Packet bytes in network byte order: the offset of the first byte, and the number of bytes.
    At(u32, u8),
    /// The same as `At`, but X is added to the offset.
    Behind(u32, u8),
    /// The length in bytes of an IPv4 header whose first byte is at this offset.
    HeaderLen(u32),
    /// The length of the packet.
    Len,
    Number(u32),
    Word(u8),
}

#[derive(Clone, Copy, Debug)]
enum Sum {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Clone, Copy, Debug)]
enum Test {
    Equal,
    Greater,
    GreaterOrEqual,
    Common,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Load(Register, Load),
    Store(Register, u8),
    Sum(Sum, Source),
    Negate,
    /// Copies A to X.
    ToX,
    /// Copies X to A.
    ToA,
    Jump(u32),
    Branch(Test, Source, u8, u8),
    /// Ends the program: the packet matches if this number is not 0.
    End(u32),
    /// Ends the program: the packet matches if A is not 0.
    EndWithA,
}

/// A filter.
#[derive(Clone, Debug)]
pub struct Program(Box<[Step]>);

impl Program {
    /// Checks and decodes a program.
    ///
    /// # Errors
    /// If the program is empty or longer than 4,096 instructions, does not end, jumps outside of the program, has an unknown instruction,
    /// or loads packet metadata of the Linux kernel from a fixed offset.
    pub fn new(instructions: &[Instruction]) -> Result<Program, BpfError> {
        if !(1..=LONGEST).contains(&instructions.len()) {
            return Err(BpfError(format!(
                "a filter must have 1 to {LONGEST} instructions, not {}",
                instructions.len()
            )));
        }
        let mut steps = Vec::with_capacity(instructions.len());
        for (at, i) in instructions.iter().enumerate() {
            let step = decode(*i).ok_or_else(|| BpfError(format!("unknown instruction {at}: {i:?}")))?;
            if matches!(step, Step::Load(_, Load::At(BESIDE.., _))) {
                return Err(BpfError(
                    "the filter uses packet metadata of the Linux kernel, such as the direction or the interface, which the router does not have"
                        .into(),
                ));
            }
            let skips = match step {
                Step::End(_) | Step::EndWithA => None,
                Step::Jump(skip) => Some(skip as usize),
                Step::Branch(_, _, yes, no) => Some(usize::from(yes.max(no))),
                _ => Some(0),
            };
            if skips.is_some_and(|skip| skip >= instructions.len() - at - 1) {
                return Err(BpfError(format!("instruction {at} jumps out of the program")));
            }
            steps.push(step);
        }
        Ok(Program(steps.into()))
    }

    /// True if a packet of `len` bytes matches. `first` has the beginning of the packet. `beyond` returns the byte at an offset in the
    /// packet, for offsets after `first`, or `None` if there is no such byte.
    pub fn matches(&self, first: &[u8], len: u32, beyond: impl Fn(usize) -> Option<u8>) -> bool {
        self.run(first, len, beyond).unwrap_or(false)
    }

    /// Runs the program. Returns true if the packet matches, and `None` if the program stops early: at a load beyond the packet's end, or
    /// a division by zero.
    fn run(&self, first: &[u8], len: u32, beyond: impl Fn(usize) -> Option<u8>) -> Option<bool> {
        let load = |at: u32, n: u8| {
            let at = at as usize;
            if let Some(bytes) = first.get(at..at.checked_add(usize::from(n))?) {
                return Some(bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)));
            }
            (at..at + usize::from(n)).try_fold(0, |sum, at| {
                let byte = first.get(at).copied().or_else(|| beyond(at))?;
                Some(sum << 8 | u32::from(byte))
            })
        };
        let (mut a, mut x, mut words) = (0u32, 0u32, [0u32; WORDS]);
        let mut steps = self.0.iter();
        loop {
            let source = |s| match s {
                Source::Number(k) => k,
                Source::X => x,
            };
            // The number of steps to skip: 0 unless this step is a jump.
            let skip = match *steps.next()? {
                Step::Load(to, what) => {
                    let value = match what {
                        Load::At(k, n) => load(k, n)?,
                        Load::Behind(k, n) => load(x.checked_add(k)?, n)?,
                        Load::HeaderLen(k) => 4 * (load(k, 1)? & 15),
                        Load::Len => len,
                        Load::Number(k) => k,
                        Load::Word(at) => words[usize::from(at) % WORDS],
                    };
                    match to {
                        Register::A => a = value,
                        Register::X => x = value,
                    }
                    0
                }
                Step::Store(from, at) => {
                    words[usize::from(at) % WORDS] = match from {
                        Register::A => a,
                        Register::X => x,
                    };
                    0
                }
                Step::Sum(sum, with) => {
                    a = sum.of(a, source(with))?;
                    0
                }
                Step::Negate => {
                    a = a.wrapping_neg();
                    0
                }
                Step::ToX => {
                    x = a;
                    0
                }
                Step::ToA => {
                    a = x;
                    0
                }
                Step::Jump(skip) => skip as usize,
                Step::Branch(test, with, yes, no) => {
                    usize::from(if test.holds(a, source(with)) { yes } else { no })
                }
                Step::End(k) => return Some(k != 0),
                Step::EndWithA => return Some(a != 0),
            };
            if skip > 0 {
                steps.nth(skip - 1)?;
            }
        }
    }
}

impl Sum {
    /// Returns the result; `None` for a division by zero.
    fn of(self, a: u32, b: u32) -> Option<u32> {
        Some(match self {
            Sum::Add => a.wrapping_add(b),
            Sum::Sub => a.wrapping_sub(b),
            Sum::Mul => a.wrapping_mul(b),
            Sum::Div => a.checked_div(b)?,
            Sum::Mod => a.checked_rem(b)?,
            Sum::And => a & b,
            Sum::Or => a | b,
            Sum::Xor => a ^ b,
            Sum::ShiftLeft => a.checked_shl(b).unwrap_or(0),
            Sum::ShiftRight => a.checked_shr(b).unwrap_or(0),
        })
    }
}

impl Test {
    fn holds(self, a: u32, b: u32) -> bool {
        match self {
            Test::Equal => a == b,
            Test::Greater => a > b,
            Test::GreaterOrEqual => a >= b,
            Test::Common => a & b != 0,
        }
    }
}

/// Decodes an instruction by its code (`linux/bpf_common.h`): the class is in the lowest three bits. Returns `None` for an unknown
/// instruction, or for a scratch memory word above 15.
fn decode(i: Instruction) -> Option<Step> {
    let (class, k) = (i.code & 7, i.k);
    let source = || if i.code & 8 == 0 { Source::Number(k) } else { Source::X };
    let word = || (k < WORDS as u32).then_some(k as u8);
    Some(match class {
        // BPF_LD and BPF_LDX: the size in bits 3 and 4, the mode in the highest three.
        0 | 1 => {
            let size = match i.code & 0x18 {
                0x00 => 4,
                0x08 => 2,
                0x10 => 1,
                _ => return None,
            };
            let to = if class == 0 { Register::A } else { Register::X };
            let what = match (class, i.code & 0xe0, size) {
                (_, 0x00, 4) => Load::Number(k),
                (_, 0x60, 4) => Load::Word(word()?),
                (_, 0x80, 4) => Load::Len,
                (0, 0x20, _) => Load::At(k, size),
                (0, 0x40, _) => Load::Behind(k, size),
                (1, 0xa0, 1) => Load::HeaderLen(k),
                _ => return None,
            };
            Step::Load(to, what)
        }
        // BPF_ST and BPF_STX.
        2 if i.code == 2 => Step::Store(Register::A, word()?),
        3 if i.code == 3 => Step::Store(Register::X, word()?),
        // BPF_ALU: the operation in the highest four bits.
        4 => {
            let sum = match i.code & 0xf0 {
                0x00 => Sum::Add,
                0x10 => Sum::Sub,
                0x20 => Sum::Mul,
                0x30 => Sum::Div,
                0x40 => Sum::Or,
                0x50 => Sum::And,
                0x60 => Sum::ShiftLeft,
                0x70 => Sum::ShiftRight,
                0x80 => return Some(Step::Negate),
                0x90 => Sum::Mod,
                0xa0 => Sum::Xor,
                _ => return None,
            };
            Step::Sum(sum, source())
        }
        // BPF_JMP.
        5 => {
            let test = match i.code & 0xf0 {
                0x00 => return Some(Step::Jump(k)),
                0x10 => Test::Equal,
                0x20 => Test::Greater,
                0x30 => Test::GreaterOrEqual,
                0x40 => Test::Common,
                _ => return None,
            };
            Step::Branch(test, source(), i.jt, i.jf)
        }
        // BPF_RET.
        6 => match i.code & 0x18 {
            0x00 => Step::End(k),
            0x10 => Step::EndWithA,
            _ => return None,
        },
        // BPF_MISC.
        7 => match i.code & 0xf8 {
            0x00 => Step::ToX,
            0x80 => Step::ToA,
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn program(lines: &str) -> Result<Program, BpfError> {
        let all: Result<Vec<Instruction>, _> = lines.lines().map(str::parse).collect();
        Program::new(&all?)
    }

    fn matches(program: &Program, packet: &[u8], at: usize) -> bool {
        let (first, rest) = packet.split_at(at.min(packet.len()));
        program.matches(first, packet.len() as u32, |i| rest.get(i.checked_sub(first.len())?).copied())
    }

    /// Output of `tcpdump -ddd icmp` without its first line.
    const ICMP: &str = "40 0 0 12\n21 0 3 2048\n48 0 0 23\n21 0 1 1\n6 0 0 262144\n6 0 0 0";

    #[test]
    fn a_tcpdump_program_runs_on_packets_of_one_or_two_buffers() {
        let icmp = program(ICMP).unwrap();
        let mut packet = [0; 42];
        packet[12..14].copy_from_slice(&[8, 0]);
        assert!(!matches(&icmp, &packet, 42));
        packet[23] = 1;
        for at in 0..=packet.len() {
            assert!(matches(&icmp, &packet, at), "{at}");
            assert!(!matches(&icmp, &packet[..23], at), "{at}");
        }
    }

    #[test]
    fn invalid_programs_are_refused() {
        for (lines, why) in [
            ("", "1 to 4096 instructions"),
            ("40 0 0 12", "out of the program"),
            ("21 0 1 1\n6 0 0 0", "out of the program"),
            ("5 0 0 1\n6 0 0 0", "out of the program"),
            ("5 0 0 4294967295\n6 0 0 0", "out of the program"),
            ("2 0 0 16\n6 0 0 0", "unknown instruction"),
            ("96 0 0 16\n6 0 0 0", "unknown instruction"),
            ("120 0 0 0\n6 0 0 0", "unknown instruction"),
            ("65535 0 0 0", "unknown instruction"),
            // The program that tcpdump makes of "inbound". It loads packet metadata.
            ("40 0 0 4294963204\n6 0 0 0", "packet metadata"),
            ("6 0 0", "not a BPF instruction"),
            ("6 300 0 0", "not a BPF instruction"),
        ] {
            let error = program(lines).unwrap_err().to_string();
            assert!(error.contains(why), "{lines:?}: {error}");
        }
    }

    #[test]
    fn arithmetic_equals_that_of_the_bpf_machine() {
        // A = 7, then the operation with k, then a comparison with the expected value.
        for (code, k, wanted) in [
            (4, u32::MAX, Some(6)),
            (20, 8, Some(u32::MAX)),
            (36, 3, Some(21)),
            (52, 2, Some(3)),
            (52, 0, None),
            (148, 4, Some(3)),
            (148, 0, None),
            (68, 8, Some(15)),
            (84, 5, Some(5)),
            (164, 5, Some(2)),
            (100, 1, Some(14)),
            (100, 32, Some(0)),
            (116, 1, Some(3)),
            (116, 40, Some(0)),
            (132, 0, Some(7u32.wrapping_neg())),
        ] {
            let value = wanted.unwrap_or(0);
            let p = program(&format!("0 0 0 7\n{code} 0 0 {k}\n21 0 1 {value}\n6 0 0 1\n6 0 0 0")).unwrap();
            assert_eq!(matches(&p, &[], 0), wanted.is_some(), "{code} {k}");
        }
    }

    proptest! {
        /// Any accepted program ends without a panic, and has the same result for a packet in one buffer and in two.
        #[test]
        fn any_valid_program_ends_without_a_panic(
            code in prop::collection::vec((0u16..256, 0u8..4, 0u8..4, prop_oneof![0u32..64, any::<u32>()]), 1..40),
            packet in prop::collection::vec(any::<u8>(), 0..80),
            at in 0usize..80,
        ) {
            let mut all: Vec<_> =
                code.into_iter().map(|(code, jt, jf, k)| Instruction { code, jt, jf, k }).collect();
            all.retain(|i| decode(*i).is_some());
            all.extend([Instruction { code: 22, jt: 0, jf: 0, k: 0 }; 4]);
            if let Ok(p) = Program::new(&all) {
                prop_assert_eq!(matches(&p, &packet, at), matches(&p, &packet, packet.len()));
            }
        }
    }
}
