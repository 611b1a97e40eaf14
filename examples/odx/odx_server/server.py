"""impacket's SMB 2 server with four more FSCTLs, and with what copies need that it lacks: cutting files, statuses, locks, writes that tell what they wrote."""

from __future__ import annotations

import configparser
import errno
import logging
import os
import secrets
import struct
from pathlib import Path
from typing import Any

from impacket import smb3structs as smb2
from impacket.ntlm import compute_lmhash, compute_nthash
from impacket.smbserver import SMBSERVER

from odx_server.locks import EXCLUSIVE, SHARED, UNLOCK
from odx_server.offload import (
    ACCESS_DENIED,
    DISK_FULL,
    FILE_LOCK_CONFLICT,
    INVALID_PARAMETER,
    SUCCESS,
    Offload,
    Refused,
)

REQUEST_RESUME_KEY, COPYCHUNK, COPYCHUNK_WRITE = 0x00140078, 0x001440F2, 0x001480F2
OFFLOAD_READ, OFFLOAD_WRITE = 0x00094264, 0x00098268
FILE_CLOSED = 0xC0000128
INVALID_DEVICE_REQUEST = 0xC0000010
LOCK_NOT_GRANTED = 0xC0000055
RANGE_NOT_LOCKED = 0xC000007E
IO_ERROR = 0xC0000185
FILE_OPENED = 1
FILE_WRITE_DATA, FILE_APPEND_DATA = 2, 4
#: What of DesiredAccess lets read and write: single rights, generic ones, MAXIMUM_ALLOWED (MS-SMB2 2.2.13.1).
MAY_READ, MAY_EXECUTE, MAY_WRITE = 0x92000001, 0x20000020, 0x52000006
#: What a disposition (supersede, create, overwrite, overwrite if) has done, where that is known.
ACTIONS = {0: 3, 2: 2, 4: 3, 5: 3}
STATUSES = {
    errno.ENOSPC: DISK_FULL,
    errno.EFBIG: DISK_FULL,
    errno.EDQUOT: DISK_FULL,
    errno.EBADF: ACCESS_DENIED,
    errno.EACCES: ACCESS_DENIED,
    errno.EROFS: ACCESS_DENIED,
}


def make(
    port: int,
    shares: dict[str, Path],
    user: str,
    password: str,
    io_bytes: int = 1 << 20,
    prefetch_bytes: int = 0,
) -> tuple[SMBSERVER, Offload]:
    """A server on 127.0.0.1 that is not serving yet, and its tokens. Raises OSError if the port is taken."""
    config = configparser.ConfigParser(interpolation=None)
    common = {
        "server_name": "ODX",
        "server_os": "UNIX",
        "server_domain": "WORKGROUP",
        "log_file": "None",
        "credentials_file": "",
        "challenge": secrets.token_hex(8),
        "rpc_apis": "yes",
        "SMB2Support": "True",
        "anonymous_logon": "False",
    }
    config["global"] = common
    for name, path in {"IPC$": Path(), **shares}.items():
        kind = "3" if name == "IPC$" else "0"
        config[name.upper()] = {
            "comment": "",
            "read only": "no",
            "share type": kind,
            "path": str(path.resolve()),
        }
    # It tells each wrong request to the root logger.
    logging.getLogger("impacket").setLevel(logging.CRITICAL)
    server = SMBSERVER(("127.0.0.1", port), config_parser=config)
    server.daemon_threads = True
    server.processConfigFile()
    server.addCredential(user, 0, compute_lmhash(password).hex(), compute_nthash(password).hex())
    offload = Offload(io_bytes, prefetch_bytes)
    _extend(server, offload)
    return server, offload


def _extend(server: SMBSERVER, offload: Offload) -> None:
    def ioctl(code: int) -> Any:
        def answer(connection: str, smb_server: SMBSERVER, request: Any) -> tuple[Any, int]:
            opened = smb_server.getConnectionData(connection)["OpenedFiles"].get(request["FileID"].getData())
            if opened is None:
                return smb2.SMB2Error(), FILE_CLOSED
            descriptor, data = opened["FileHandle"], bytes(request["Buffer"])[: request["InputCount"]]
            if not isinstance(descriptor, int) or descriptor < 0:
                return smb2.SMB2Error(), INVALID_DEVICE_REQUEST
            output_bytes = request["MaxOutputResponse"]
            try:
                if code == REQUEST_RESUME_KEY:
                    if output_bytes < 32:
                        raise Refused(INVALID_PARAMETER)
                    may_read = bool(opened["Access"] & (MAY_READ | MAY_EXECUTE))
                    key = offload.resume_key(connection, request["FileID"].getData(), descriptor, may_read)
                    return key, SUCCESS
                if code in (COPYCHUNK, COPYCHUNK_WRITE):
                    owner = (connection, request["FileID"].getData())
                    # SRV_COPYCHUNK_WRITE is the one that does not read its destination.
                    allowed = bool(opened["Access"] & MAY_WRITE) and (
                        code == COPYCHUNK_WRITE or bool(opened["Access"] & MAY_READ)
                    )
                    answered = offload.copychunk(owner, descriptor, data, output_bytes, allowed=allowed)
                    return answered, SUCCESS
                call = offload.read if code == OFFLOAD_READ else offload.write
                return call(connection, descriptor, data, output_bytes), SUCCESS
            except Refused as refused:
                if refused.data is None:
                    return smb2.SMB2Error(), refused.status
                return _full(code, request, refused.data), refused.status
            except OSError as error:
                return smb2.SMB2Error(), STATUSES.get(error.errno or 0, IO_ERROR)

        return answer

    for code in (REQUEST_RESUME_KEY, COPYCHUNK, COPYCHUNK_WRITE, OFFLOAD_READ, OFFLOAD_WRITE):
        server.getIoctls()[code] = ioctl(code)
    _told(server, offload)
    _exact(server)


def _exact(server: SMBSERVER) -> None:
    """A full answer to an FSCTL ends with its output: impacket fills it up to 8 bytes, and Samba's client then takes an error for a bare one."""
    process = server.processRequest

    def answer(connection: str, request: bytes) -> Any:
        packets = process(connection, request)
        if len(packets) != 1 or not isinstance(packets[0], bytes) or packets[0][:4] != b"\xfeSMB":
            return packets
        packet = smb2.SMB2Packet(data=packets[0])
        body = packets[0][64:]
        is_full = packet["Command"] == smb2.SMB2_IOCTL and body[:2] == b"1\0" and not packet["NextCommand"]
        if not is_full:
            return packets
        offset, count = struct.unpack("<II", body[32:40])
        packet["Data"] = body[: offset - 64 + count]
        known = server.getConnectionData(connection, False)
        if known["SignatureEnabled"]:
            server.signSMBv2(packet, known["SigningSessionKey"])
        return [packet.getData()]

    server.processRequest = answer


def _told(server: SMBSERVER, offload: Offload) -> None:
    """Wraps or replaces the commands that change what a token stands for, or that locks forbid."""
    from impacket.smbserver import SMB2Commands

    def is_file(file: Any) -> bool:
        return file is not None and isinstance(file["FileHandle"], int) and file["FileHandle"] >= 0

    def opened(connection: str, request: Any) -> Any:
        return server.getConnectionData(connection)["OpenedFiles"].get(request["FileID"].getData())

    def write(connection: str, smb_server: SMBSERVER, packet: Any) -> Any:
        # impacket's own leaves out what begins behind the end, and tells a write that was cut short as a whole one.
        request = smb2.SMB2Write(packet["Data"])
        file = opened(connection, request)
        if not is_file(file):
            return SMB2Commands.smb2Write(connection, smb_server, packet)
        name, descriptor, data = request["FileID"].getData(), file["FileHandle"], bytes(request["Buffer"])
        if offload.locks.conflict((connection, name), descriptor, request["Offset"], len(data), write=True):
            return [smb2.SMB2Error()], None, FILE_LOCK_CONFLICT
        response = smb2.SMB2Write_Response()
        try:
            response["Count"] = os.pwrite(descriptor, data, request["Offset"])
        except OSError as error:
            return [smb2.SMB2Error()], None, STATUSES.get(error.errno or 0, IO_ERROR)
        response["Buffer"] = b"\0"
        offload.changed(descriptor)
        return [response], None, SUCCESS

    def read(connection: str, smb_server: SMBSERVER, packet: Any) -> Any:
        request = smb2.SMB2Read(packet["Data"])
        file, owner = opened(connection, request), (connection, request["FileID"].getData())
        where = (request["Offset"], request["Length"])
        if is_file(file) and offload.locks.conflict(owner, file["FileHandle"], *where, write=False):
            return [smb2.SMB2Error()], None, FILE_LOCK_CONFLICT
        return SMB2Commands.smb2Read(connection, smb_server, packet)

    def lock(connection: str, smb_server: SMBSERVER, packet: Any) -> Any:
        request = smb2.SMB2Lock(packet["Data"])
        file, owner = opened(connection, request), (connection, request["FileID"].getData())
        if not is_file(file):
            return [smb2.SMB2Error()], None, FILE_CLOSED
        ranges = [struct.unpack_from("<QQI", request["Locks"], 24 * n) for n in range(request["LockCount"])]
        kinds = {flags & (SHARED | EXCLUSIVE | UNLOCK) for _, _, flags in ranges}
        if kinds == {UNLOCK}:
            done = offload.locks.unlock(owner, file["FileHandle"], [each[:2] for each in ranges])
            status = SUCCESS if done else RANGE_NOT_LOCKED
        elif kinds and kinds <= {SHARED, EXCLUSIVE}:
            wanted = [(start, size, bool(flags & EXCLUSIVE)) for start, size, flags in ranges]
            done = offload.locks.lock(owner, file["FileHandle"], wanted)
            status = SUCCESS if done else LOCK_NOT_GRANTED
        else:
            status = INVALID_PARAMETER
        return [smb2.SMB2Lock_Response() if status == SUCCESS else smb2.SMB2Error()], None, status

    def set_info(connection: str, smb_server: SMBSERVER, packet: Any) -> Any:
        request = smb2.SMB2SetInfo(packet["Data"])
        file = opened(connection, request)
        is_end = request["InfoType"] == smb2.SMB2_0_INFO_FILE and request["FileInfoClass"] in (20, 19)
        if file is None or not is_end:
            return SMB2Commands.smb2SetInfo(connection, smb_server, packet)
        # impacket writes a byte at the end, which neither cuts a file nor leaves it as it was.
        size = int.from_bytes(bytes(request["Buffer"])[:8], "little")
        try:
            if request["FileInfoClass"] == 20:
                os.ftruncate(file["FileHandle"], size)
            offload.changed(file["FileHandle"])
        except OSError as error:
            return [smb2.SMB2Error()], None, STATUSES.get(error.errno or 0, INVALID_PARAMETER)
        return [smb2.SMB2SetInfo_Response()], None, SUCCESS

    def create(connection: str, smb_server: SMBSERVER, packet: Any) -> Any:
        # Who may append may write; impacket opens that for reading only. DesiredAccess is at byte 24 (MS-SMB2 2.2.13).
        data = bytearray(packet["Data"])
        if data[24] & FILE_APPEND_DATA:
            data[24] |= FILE_WRITE_DATA
            packet["Data"] = bytes(data)
        answers, more, status = SMB2Commands.smb2Create(connection, smb_server, packet)
        if status == SUCCESS:
            # impacket hands the disposition back where the action belongs.
            request = smb2.SMB2Create(packet["Data"])
            disposition = request["CreateDisposition"]
            files = server.getConnectionData(connection)["OpenedFiles"]
            files[answers[0]["FileID"]]["Access"] = request["DesiredAccess"]
            answers[0]["CreateAction"] = ACTIONS.get(disposition, FILE_OPENED)
        return answers, more, status

    def close(connection: str, smb_server: SMBSERVER, packet: Any) -> Any:
        offload.closed(connection, smb2.SMB2Close(packet["Data"])["FileID"].getData())
        return SMB2Commands.smb2Close(connection, smb_server, packet)

    for command, handler in (
        (smb2.SMB2_WRITE, write),
        (smb2.SMB2_READ, read),
        (smb2.SMB2_LOCK, lock),
        (smb2.SMB2_SET_INFO, set_info),
        (smb2.SMB2_CREATE, create),
        (smb2.SMB2_CLOSE, close),
    ):
        server.hookSmb2Command(command, handler)
    removed = server.removeConnection

    def remove(connection: str) -> None:
        offload.forget(connection)
        removed(connection)

    server.removeConnection = remove


def _full(code: int, request: Any, data: bytes) -> Any:
    """An IOCTL response with output beside an error (MS-SMB2 3.3.5.15.6)."""
    response = smb2.SMB2Ioctl_Response()
    for field in ("CtlCode", "FileID"):
        response[field] = request[field]
    response["CtlCode"] = code
    for field in ("InputOffset", "InputCount", "Flags"):
        response[field] = 0
    response["OutputOffset"], response["OutputCount"], response["Buffer"] = 0x70, len(data), data
    return response
