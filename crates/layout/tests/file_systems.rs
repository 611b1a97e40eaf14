//! Real file systems on loop devices: fragmentation that can be measured, and its repair, with the contents as they were.
use layout::{fragment, measure, reallocate, LayoutError, Method, Options, Outcome, Reallocated};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::test;

testing::main!();

const PIECE: u64 = 64 << 10;
const REQUEST: u64 = 512 << 10;
const KINDS: [&str; 3] = ["ext4", "xfs", "btrfs"];

/// A file system of its own, gone with the value.
struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    fn new(kind: &str) -> Mounted {
        // SAFETY: asks a number.
        if unsafe { libc::geteuid() } != 0 {
            testing::skip("mounting needs root");
        }
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(400 << 20).unwrap();
        let force = if kind == "ext4" { "-F" } else { "-f" };
        let mut arguments = vec!["-q", force];
        if kind == "ext4" {
            // A small one would get blocks of 1 KiB.
            arguments.extend(["-b", "4096"]);
        }
        arguments.push(image.to_str().unwrap());
        run(&format!("mkfs.{kind}"), &arguments);
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        run(
            "mount",
            &["-o", "loop", image.to_str().unwrap(), root.to_str().unwrap()],
        );
        Mounted { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("root").join(name)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg(self.folder.path().join("root"))
            .status();
    }
}

/// Runs a program; a test without its program, or without the permission to do this here, cannot run.
fn run(program: &str, arguments: &[&str]) {
    match Command::new(program).args(arguments).output() {
        Ok(done) if done.status.success() => {}
        Ok(done) => testing::skip(format!(
            "{program}: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        )),
        Err(error) => testing::skip(format!("{program}: {error}")),
    }
}

fn options() -> Options {
    Options {
        threshold: 2.0,
        dry_run: false,
        rewrite: false,
        request_bytes: REQUEST,
    }
}

fn go_on(_done: u64, _of: u64) -> bool {
    true
}

fn noise(path: &Path, bytes: usize) -> Vec<u8> {
    let mut state = 7_u32;
    let contents: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(bytes)
    .collect();
    fs::write(path, &contents).unwrap();
    contents
}

fn fragmented_and_reallocated(kind: &str) {
    let mounted = Mounted::new(kind);
    let path = mounted.path("file");
    // Not a whole number of pieces, nor of blocks.
    let contents = noise(&path, (24 << 20) + 12_345);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
    let c_path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: strings that end with NUL, and lengths that are theirs.
    let set = unsafe {
        libc::setxattr(
            c_path.as_ptr(),
            c"user.kept".as_ptr(),
            c"yes".as_ptr().cast(),
            3,
            0,
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    let times = fs::metadata(&path).unwrap();
    let facts = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (
            found.mode(),
            found.uid(),
            found.gid(),
            found.mtime(),
            found.mtime_nsec(),
            found.len(),
        )
    };
    let before = facts(&path);

    let done = fragment(&path, None, PIECE, 3, REQUEST, &mut go_on).unwrap();
    assert!(done.before.layout.runs < 40, "{kind}: {:?}", done.before);
    assert_eq!(done.pieces, 385);
    assert!(
        done.is_as_asked() && done.after.layout.runs_per_64_blocks > 3.5,
        "{kind}: {:?}",
        done.after
    );
    assert!(
        done.after.layout.seeks >= 380
            && done.after.layout.requests > 7 * done.after.layout.requests_contiguous
    );
    assert_eq!(done.after.layout.shared_bytes, 0, "{kind}");
    assert_eq!(fs::read(&path).unwrap(), contents);
    assert_eq!(facts(&path), before);

    let dry = reallocate(
        &path,
        Options {
            dry_run: true,
            ..options()
        },
        &mut go_on,
    )
    .unwrap();
    assert_eq!(
        (dry.outcome, dry.before.layout.runs),
        (Outcome::Would, done.after.layout.runs)
    );
    let moved = reallocate(&path, options(), &mut go_on).unwrap();
    assert_eq!(moved.outcome, Outcome::Moved, "{kind}: {moved:?}");
    assert_ne!(moved.method, Method::Rewrite);
    assert!(
        moved.after.as_ref().unwrap().layout.runs < 10,
        "{kind}: {:?}",
        moved.after
    );
    assert_eq!(moved.xxh64.as_deref(), Some(done.xxh64.as_str()));
    assert_eq!(fs::read(&path).unwrap(), contents);
    assert_eq!(facts(&path), before);
    assert_eq!(
        reallocate(&path, options(), &mut go_on).unwrap().outcome,
        Outcome::Fine
    );

    // The same by a copy, which is another file of the same facts.
    fragment(&path, Some(385), PIECE, 4, REQUEST, &mut go_on).unwrap();
    let rewritten = reallocate(
        &path,
        Options {
            rewrite: true,
            ..options()
        },
        &mut go_on,
    )
    .unwrap();
    assert!(
        rewritten.after.as_ref().unwrap().layout.runs < 10,
        "{kind}: {:?}",
        rewritten.after
    );
    assert_ne!(fs::metadata(&path).unwrap().ino(), times.ino());
    assert_eq!((facts(&path), fs::read(&path).unwrap()), (before, contents));
    let mut value = [0_u8; 8];
    // SAFETY: as above.
    let got = unsafe {
        libc::getxattr(
            c_path.as_ptr(),
            c"user.kept".as_ptr(),
            value.as_mut_ptr().cast(),
            8,
        )
    };
    assert_eq!((got, &value[..3]), (3, &b"yes"[..]));
    // Nothing is left beside it.
    let names: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(
        names.iter().all(|name| name == "file" || name == "lost+found"),
        "{names:?}"
    );
}

#[test]
fn ext4_is_fragmented_and_reallocated() {
    fragmented_and_reallocated("ext4");
}

#[test]
fn xfs_is_fragmented_and_reallocated() {
    fragmented_and_reallocated("xfs");
}

#[test]
fn btrfs_is_fragmented_and_reallocated() {
    fragmented_and_reallocated("btrfs");
}

#[test]
fn a_new_file_is_made_in_pieces() {
    let mounted = Mounted::new("ext4");
    let path = mounted.path("new");
    let done = fragment(&path, Some(100), 4096, 1, REQUEST, &mut go_on).unwrap();
    assert!(done.made && done.is_as_asked());
    assert_eq!(fs::metadata(&path).unwrap().len(), 409_600);
    // 64 pieces in a window of 64 blocks: the worst there is.
    assert!(done.after.layout.runs_per_64_blocks > 45.0, "{:?}", done.after);
}

#[test]
fn what_is_stopped_midway_is_whole_and_goes_on() {
    for kind in KINDS {
        let mounted = Mounted::new(kind);
        let path = mounted.path("file");
        let contents = noise(&path, 16 << 20);
        fragment(&path, None, PIECE, 1, REQUEST, &mut go_on).unwrap();
        for calls in [0, 3, 17, 20, 40] {
            let mut left = calls;
            let mut stop = |_: u64, _: u64| {
                left -= 1;
                left > 0
            };
            let stopped = reallocate(&path, options(), &mut stop);
            assert!(
                matches!(stopped, Err(LayoutError::Stopped { .. }) | Ok(Reallocated { .. })),
                "{stopped:?}"
            );
            assert!(
                fs::read(&path).unwrap() == contents,
                "{kind}, stopped after {calls}"
            );
        }
        let done = reallocate(&path, options(), &mut go_on).unwrap();
        assert!(
            matches!(done.outcome, Outcome::Moved | Outcome::Fine),
            "{kind}: {done:?}"
        );
        assert!(measure(&path, REQUEST).unwrap().layout.runs < 10);
        assert!(fs::read(&path).unwrap() == contents);
    }
}

#[test]
fn holes_stay_holes() {
    for kind in KINDS {
        let mounted = Mounted::new(kind);
        let path = mounted.path("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        // Every other 64 KiB of the first 8 MiB, from the end on: as scattered as the file system lets it be.
        for piece in (0..64_u64).rev() {
            file.write_all_at(&[piece as u8 + 1; PIECE as usize], piece * 2 * PIECE)
                .unwrap();
            file.sync_all().unwrap();
        }
        drop(file);
        let contents = fs::read(&path).unwrap();
        let allocated = measure(&path, REQUEST).unwrap().layout.allocated_bytes;
        for rewrite in [false, true] {
            let done = reallocate(
                &path,
                Options {
                    threshold: 0.5,
                    rewrite,
                    ..options()
                },
                &mut go_on,
            )
            .unwrap();
            assert_ne!(done.outcome, Outcome::Fine, "{kind}");
            assert!(fs::read(&path).unwrap() == contents, "{kind}");
            assert_eq!(
                measure(&path, REQUEST).unwrap().layout.allocated_bytes,
                allocated,
                "{kind} {done:?}"
            );
        }
    }
}

#[test]
fn what_others_use_share_or_name_twice_is_left_alone() {
    let mounted = Mounted::new("btrfs");
    let path = mounted.path("file");
    let contents = noise(&path, 4 << 20);
    let in_use = File::open(&path).unwrap();
    let refused = fragment(&path, None, PIECE, 1, REQUEST, &mut go_on)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("nobody else has open"), "{refused}");
    drop(in_use);
    fragment(&path, None, PIECE, 1, REQUEST, &mut go_on).unwrap();
    fs::hard_link(&path, mounted.path("second")).unwrap();
    let refused = fragment(&path, None, PIECE, 1, REQUEST, &mut go_on)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("found 2 names"), "{refused}");
    fs::remove_file(mounted.path("second")).unwrap();
    run(
        "cp",
        &[
            "--reflink=always",
            path.to_str().unwrap(),
            mounted.path("clone").to_str().unwrap(),
        ],
    );
    assert_eq!(
        reallocate(&path, options(), &mut go_on).unwrap().outcome,
        Outcome::Shared
    );
    let refused = fragment(&path, Some(3), PIECE, 1, REQUEST, &mut go_on)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("which are 64 pieces"), "{refused}");
    let refused = fragment(&path, None, 1000, 1, REQUEST, &mut go_on)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("1000 bytes"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), contents);
    let refused = measure(mounted.path("").as_path(), REQUEST)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("a regular file"), "{refused}");
}

#[test]
fn a_file_that_is_written_meanwhile_keeps_what_was_written() {
    let mounted = Mounted::new("ext4");
    let path = mounted.path("file");
    let mut contents = noise(&path, 16 << 20);
    fragment(&path, None, PIECE, 1, REQUEST, &mut go_on).unwrap();
    let writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let mut calls = 0_u64;
    let mut meddle = |_: u64, _: u64| {
        calls += 1;
        let at = calls * 400_009 % (15 << 20);
        writer.write_all_at(&calls.to_le_bytes(), at).unwrap();
        contents[at as usize..at as usize + 8].copy_from_slice(&calls.to_le_bytes());
        true
    };
    let done = reallocate(&path, options(), &mut meddle).unwrap();
    assert_eq!((done.outcome, done.xxh64), (Outcome::MovedWhileChanged, None));
    assert!(fs::read(&path).unwrap() == contents);
}
