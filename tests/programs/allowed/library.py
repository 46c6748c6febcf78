import base64, bisect, calendar, csv, datetime as dt, decimal, difflib, fractions, hashlib, heapq, hmac, html
import io, ipaddress, itertools, json, math, os.path, pathlib, pprint, random, re, statistics, string, struct, textwrap
import typing, unicodedata, urllib.parse, uuid, zlib
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path
from zoneinfo import ZoneInfo


def run(ctx, inputs):
    out = []
    d = datetime(2024, 2, 28, 12, 30, tzinfo=timezone.utc) + timedelta(days=1)
    out += [d, d.isoformat(), d.strftime("%Y-%m-%d %A"), d - timedelta(hours=1), datetime.strptime("2024-01-02", "%Y-%m-%d")]
    out += [isinstance(d, date), d.date(), d.replace(year=2020), date(2024, 1, 31) + timedelta(1), dt.date.fromisoformat("2024-05-06").weekday()]
    out += [d.astimezone(ZoneInfo("America/New_York")), timedelta(seconds=3661), str(timedelta(days=1, seconds=5)), datetime.fromtimestamp(0, timezone.utc)]
    out += [type(datetime.now()) is datetime, isinstance(date.today(), date), (datetime.now() - timedelta(1)) < datetime.now(), datetime.min.year]
    out += [calendar.monthrange(2024, 2), calendar.month_name[3], Decimal("1.005").quantize(Decimal("0.01"), rounding=ROUND_HALF_UP), decimal.getcontext().prec]
    out += [Fraction(1, 3) + 1, math.factorial(10), math.inf, statistics.mean([1, 2, 4]), statistics.quantiles([1, 2, 3, 4])]
    out += [hashlib.sha256(b"x").hexdigest(), hashlib.new("md5", b"x").hexdigest(), hmac.new(b"k", b"m", "sha256").hexdigest(), hmac.new(b"k", b"m", hashlib.sha1).hexdigest()]
    out += [base64.b64encode(b"hi").decode(), base64.urlsafe_b64decode("aGk="), zlib.decompress(zlib.compress(b"zz")), struct.pack("<I", 5), html.escape("<a&>")]
    out += [urllib.parse.quote("a b/c"), urllib.parse.urlencode({"a": [1, 2]}, doseq=True), urllib.parse.urlparse("http://x.y/z?q=1#f").netloc, urllib.parse.urljoin("http://a/b/", "c")]
    out += [uuid.uuid5(uuid.NAMESPACE_DNS, "x"), uuid.UUID(int=5), len(str(uuid.uuid4())), uuid.uuid4().version]
    out += [os.path.join("a", "b.txt"), os.path.splitext("a/b.txt"), os.path.basename("a/b"), Path("a/b.txt").suffix, Path("a") / "b", Path("a/b").parent, Path("a/b").name, str(Path("x").with_suffix(".y"))]
    rows = list(csv.DictReader(io.StringIO("a,b\n1,2\n3,4\n")))
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["x", 'y"z'])
    w = csv.DictWriter(buffer, fieldnames=["a"], extrasaction="ignore")
    w.writeheader()
    w.writerows(rows)
    out += [rows, buffer.getvalue()]
    out += [json.loads('{"a": [1, 2.5, null, true]}'), json.dumps({"b": 1, "a": "é"}, indent=2, sort_keys=True, ensure_ascii=False), json.loads("[1]", parse_int=str)]
    try:
        json.loads("{bad")
    except json.JSONDecodeError as error:
        out += [error.msg, error.pos, error.lineno, str(error)]
    out += [textwrap.dedent("  a\n  b"), textwrap.shorten("hello world", 8), textwrap.fill("a b c", 3), string.ascii_lowercase[:3], string.Template("$a-${b}").substitute(a=1, b=2), string.capwords("a b")]
    out += [difflib.get_close_matches("appel", ["apple"]), "".join(difflib.unified_diff(["a\n"], ["b\n"])), difflib.SequenceMatcher(None, "ab", "ac").ratio()]
    out += [heapq.nsmallest(2, [3, 1, 2]), list(heapq.merge([1, 3], [2])), bisect.bisect([1, 2, 3], 2), list(itertools.pairwise([1, 2, 3])), list(itertools.accumulate([1, 2, 3]))]
    out += [unicodedata.normalize("NFKD", "é").encode("ascii", "ignore"), ipaddress.ip_address("10.0.0.1").is_private, list(ipaddress.ip_network("10.0.0.0/30").hosts())]
    out += [pprint.pformat({"a": list(range(30))}), isinstance([], Iterable), isinstance({}, Mapping), typing.get_args(dict[str, int]), typing.get_origin(list[int])]
    random.seed(5)
    a = [random.random(), random.randint(1, 9), random.choice("abc"), random.sample(range(9), 3)]
    out += [a, random.Random(5).random() == a[0], sorted(random.sample([1, 2, 3], 3))]
    out += [re.compile(r"(\d+)", re.I | re.M).findall("a1b22"), re.split(r",\s*", "a, b"), [m.span() for m in re.finditer("a", "aba")], re.escape("a.b"), re.I]
    out += ["é".encode("latin-1"), b"\xff\xfe".decode("utf-16"), "x".encode("cp1252"), "ß".casefold(), bytes.fromhex("ff").hex(), int.from_bytes(b"\x01\x00", "big")]
    return [repr(x) for x in out[:3]] + [repr(x) for x in out[3:] if "uuid4" not in repr(x)]
