// @ts-nocheck
// Generated from the schema beside it by scripts/validators.mjs; change that, not this.
"use strict";
export const validate = validate10;
export default validate10;
const schema11 = {"$schema":"http://json-schema.org/draft-07/schema#","$comment":"The manifest of a kept result (manifest.ts). Times and durations are so small that they and their sums are dates, and timers can wait for them.","type":"object","required":["version","id","user","database","sessionId","sql","effect","isStandalone","process","madeAt","keepMs","endedAt","state","columns","stats","rows","pages"],"properties":{"version":{"const":1},"id":{"type":"string"},"user":{"type":"string"},"database":{"type":"string"},"sessionId":{"type":"string"},"sql":{"type":["string","null"]},"effect":{"enum":["read","atomic","partial","compound"]},"isStandalone":{"type":"boolean"},"process":{"type":"object","required":["pid","identity"],"properties":{"pid":{"type":"integer","minimum":1},"identity":{"type":"string"}}},"madeAt":{"$ref":"#/definitions/time"},"keepMs":{"type":"number","minimum":0,"maximum":2147483647},"endedAt":{"anyOf":[{"type":"null"},{"$ref":"#/definitions/time"}]},"state":{"type":"object","required":["name"],"oneOf":[{"properties":{"name":{"const":"Running"}}},{"required":["outcome"],"properties":{"name":{"const":"Succeeded"},"outcome":{"type":"object","required":["affectedRows","lastInsertId","warnings"],"properties":{"affectedRows":{"$ref":"#/definitions/digits"},"lastInsertId":{"anyOf":[{"type":"null"},{"$ref":"#/definitions/digits"}]},"warnings":{"$ref":"#/definitions/count"}}}}},{"required":["failure"],"properties":{"name":{"const":"Failed"},"failure":{"type":"object","required":["code","sqlstate","message","outcome","retryable"],"properties":{"code":{"type":"integer"},"sqlstate":{"type":"string"},"message":{"type":"string"},"outcome":{"enum":["not_started","rolled_back","committed","unknown"]},"retryable":{"type":"boolean"}}}}}]},"columns":{"type":"array","items":{"$ref":"#/definitions/column"}},"stats":{"anyOf":[{"type":"null"},{"type":"object","required":["runningMs","scan","write","result","spill","queue"],"properties":{"runningMs":{"type":"number","minimum":0},"scan":{"type":"object","required":["rows","bytes","known","estimatedRows"],"properties":{"rows":{"$ref":"#/definitions/count"},"bytes":{"$ref":"#/definitions/count"},"known":{"type":"boolean"},"estimatedRows":{"anyOf":[{"type":"null"},{"$ref":"#/definitions/count"}]}}},"write":{"$ref":"#/definitions/progress"},"result":{"$ref":"#/definitions/progress"},"spill":{"$ref":"#/definitions/progress"},"queue":{"anyOf":[{"type":"null"},{"$ref":"#/definitions/count"}]}}}]},"rows":{"$ref":"#/definitions/count"},"pages":{"type":"object","required":["rows","format"],"properties":{"rows":{"type":"integer","minimum":1},"format":{"enum":["json","json, large integers as strings","json strings","json strings, NULL too"]}}}},"if":{"properties":{"state":{"properties":{"name":{"const":"Running"}}}}},"else":{"properties":{"endedAt":{"type":"number"}}},"definitions":{"time":{"type":"number","minimum":0,"maximum":4000000000000000},"count":{"type":"number","minimum":0},"digits":{"type":"string","pattern":"^[0-9]{1,20}$"},"progress":{"type":"object","required":["rows","bytes"],"properties":{"rows":{"$ref":"#/definitions/count"},"bytes":{"$ref":"#/definitions/count"}}},"column":{"type":"object","required":["name","type","nullable"],"properties":{"name":{"type":"string"},"nullable":{"type":"boolean"},"type":{"type":"object","required":["name"],"oneOf":[{"properties":{"name":{"enum":["Int8","Int16","Int32","Int64","UInt8","UInt16","UInt32","UInt64","Float32","Float64","Date","String","Binary","Variant","Geometry","Vector","Null"]}}},{"required":["precision","scale"],"properties":{"name":{"const":"Decimal"},"precision":{"type":"integer"},"isComputed":{"const":true},"scale":{"type":"integer"}}},{"required":["precision"],"properties":{"name":{"enum":["Timestamp","Time"]},"precision":{"type":"integer"}}}]}}}}};
const schema12 = {"type":"number","minimum":0,"maximum":4000000000000000};
const schema14 = {"type":"string","pattern":"^[0-9]{1,20}$"};
const schema16 = {"type":"number","minimum":0};
const schema17 = {"type":"object","required":["name","type","nullable"],"properties":{"name":{"type":"string"},"nullable":{"type":"boolean"},"type":{"type":"object","required":["name"],"oneOf":[{"properties":{"name":{"enum":["Int8","Int16","Int32","Int64","UInt8","UInt16","UInt32","UInt64","Float32","Float64","Date","String","Binary","Variant","Geometry","Vector","Null"]}}},{"required":["precision","scale"],"properties":{"name":{"const":"Decimal"},"precision":{"type":"integer"},"isComputed":{"const":true},"scale":{"type":"integer"}}},{"required":["precision"],"properties":{"name":{"enum":["Timestamp","Time"]},"precision":{"type":"integer"}}}]}}};
const pattern0 = new RegExp("^[0-9]{1,20}$", "u");
const schema21 = {"type":"object","required":["rows","bytes"],"properties":{"rows":{"$ref":"#/definitions/count"},"bytes":{"$ref":"#/definitions/count"}}};

function validate11(data, {instancePath="", parentData, parentDataProperty, rootData=data}={}){
let vErrors = null;
let errors = 0;
if(errors === 0){
if(data && typeof data == "object" && !Array.isArray(data)){
let missing0;
if(((data.rows === undefined) && (missing0 = "rows")) || ((data.bytes === undefined) && (missing0 = "bytes"))){
validate11.errors = [{instancePath,schemaPath:"#/required",keyword:"required",params:{missingProperty: missing0},message:"must have required property '"+missing0+"'"}];
return false;
}
else {
if(data.rows !== undefined){
let data0 = data.rows;
const _errs1 = errors;
const _errs2 = errors;
if(errors === _errs2){
if((typeof data0 == "number") && (isFinite(data0))){
if(data0 < 0 || isNaN(data0)){
validate11.errors = [{instancePath:instancePath+"/rows",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"}];
return false;
}
}
else {
validate11.errors = [{instancePath:instancePath+"/rows",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"}];
return false;
}
}
var valid0 = _errs1 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.bytes !== undefined){
let data1 = data.bytes;
const _errs4 = errors;
const _errs5 = errors;
if(errors === _errs5){
if((typeof data1 == "number") && (isFinite(data1))){
if(data1 < 0 || isNaN(data1)){
validate11.errors = [{instancePath:instancePath+"/bytes",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"}];
return false;
}
}
else {
validate11.errors = [{instancePath:instancePath+"/bytes",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"}];
return false;
}
}
var valid0 = _errs4 === errors;
}
else {
var valid0 = true;
}
}
}
}
else {
validate11.errors = [{instancePath,schemaPath:"#/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
validate11.errors = vErrors;
return errors === 0;
}


function validate10(data, {instancePath="", parentData, parentDataProperty, rootData=data}={}){
let vErrors = null;
let errors = 0;
const _errs2 = errors;
let valid0 = true;
const _errs3 = errors;
if(data && typeof data == "object" && !Array.isArray(data)){
if(data.state !== undefined){
let data0 = data.state;
if(data0 && typeof data0 == "object" && !Array.isArray(data0)){
if(data0.name !== undefined){
if("Running" !== data0.name){
const err0 = {};
if(vErrors === null){
vErrors = [err0];
}
else {
vErrors.push(err0);
}
errors++;
}
}
}
}
}
var _valid0 = _errs3 === errors;
errors = _errs2;
if(vErrors !== null){
if(_errs2){
vErrors.length = _errs2;
}
else {
vErrors = null;
}
}
if(!_valid0){
const _errs6 = errors;
if(data && typeof data == "object" && !Array.isArray(data)){
if(data.endedAt !== undefined){
let data2 = data.endedAt;
if(!((typeof data2 == "number") && (isFinite(data2)))){
validate10.errors = [{instancePath:instancePath+"/endedAt",schemaPath:"#/else/properties/endedAt/type",keyword:"type",params:{type: "number"},message:"must be number"}];
return false;
}
}
}
var _valid0 = _errs6 === errors;
valid0 = _valid0;
}
if(!valid0){
const err1 = {instancePath,schemaPath:"#/if",keyword:"if",params:{failingKeyword: "else"},message:"must match \"else\" schema"};
if(vErrors === null){
vErrors = [err1];
}
else {
vErrors.push(err1);
}
errors++;
validate10.errors = vErrors;
return false;
}
if(errors === 0){
if(data && typeof data == "object" && !Array.isArray(data)){
let missing0;
if((((((((((((((((((data.version === undefined) && (missing0 = "version")) || ((data.id === undefined) && (missing0 = "id"))) || ((data.user === undefined) && (missing0 = "user"))) || ((data.database === undefined) && (missing0 = "database"))) || ((data.sessionId === undefined) && (missing0 = "sessionId"))) || ((data.sql === undefined) && (missing0 = "sql"))) || ((data.effect === undefined) && (missing0 = "effect"))) || ((data.isStandalone === undefined) && (missing0 = "isStandalone"))) || ((data.process === undefined) && (missing0 = "process"))) || ((data.madeAt === undefined) && (missing0 = "madeAt"))) || ((data.keepMs === undefined) && (missing0 = "keepMs"))) || ((data.endedAt === undefined) && (missing0 = "endedAt"))) || ((data.state === undefined) && (missing0 = "state"))) || ((data.columns === undefined) && (missing0 = "columns"))) || ((data.stats === undefined) && (missing0 = "stats"))) || ((data.rows === undefined) && (missing0 = "rows"))) || ((data.pages === undefined) && (missing0 = "pages"))){
validate10.errors = [{instancePath,schemaPath:"#/required",keyword:"required",params:{missingProperty: missing0},message:"must have required property '"+missing0+"'"}];
return false;
}
else {
if(data.version !== undefined){
const _errs9 = errors;
if(1 !== data.version){
validate10.errors = [{instancePath:instancePath+"/version",schemaPath:"#/properties/version/const",keyword:"const",params:{allowedValue: 1},message:"must be equal to constant"}];
return false;
}
var valid4 = _errs9 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.id !== undefined){
const _errs10 = errors;
if(typeof data.id !== "string"){
validate10.errors = [{instancePath:instancePath+"/id",schemaPath:"#/properties/id/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid4 = _errs10 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.user !== undefined){
const _errs12 = errors;
if(typeof data.user !== "string"){
validate10.errors = [{instancePath:instancePath+"/user",schemaPath:"#/properties/user/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid4 = _errs12 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.database !== undefined){
const _errs14 = errors;
if(typeof data.database !== "string"){
validate10.errors = [{instancePath:instancePath+"/database",schemaPath:"#/properties/database/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid4 = _errs14 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.sessionId !== undefined){
const _errs16 = errors;
if(typeof data.sessionId !== "string"){
validate10.errors = [{instancePath:instancePath+"/sessionId",schemaPath:"#/properties/sessionId/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid4 = _errs16 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.sql !== undefined){
let data8 = data.sql;
const _errs18 = errors;
if((typeof data8 !== "string") && (data8 !== null)){
validate10.errors = [{instancePath:instancePath+"/sql",schemaPath:"#/properties/sql/type",keyword:"type",params:{type: schema11.properties.sql.type},message:"must be string,null"}];
return false;
}
var valid4 = _errs18 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.effect !== undefined){
let data9 = data.effect;
const _errs20 = errors;
if(!((((data9 === "read") || (data9 === "atomic")) || (data9 === "partial")) || (data9 === "compound"))){
validate10.errors = [{instancePath:instancePath+"/effect",schemaPath:"#/properties/effect/enum",keyword:"enum",params:{allowedValues: schema11.properties.effect.enum},message:"must be equal to one of the allowed values"}];
return false;
}
var valid4 = _errs20 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.isStandalone !== undefined){
const _errs21 = errors;
if(typeof data.isStandalone !== "boolean"){
validate10.errors = [{instancePath:instancePath+"/isStandalone",schemaPath:"#/properties/isStandalone/type",keyword:"type",params:{type: "boolean"},message:"must be boolean"}];
return false;
}
var valid4 = _errs21 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.process !== undefined){
let data11 = data.process;
const _errs23 = errors;
if(errors === _errs23){
if(data11 && typeof data11 == "object" && !Array.isArray(data11)){
let missing1;
if(((data11.pid === undefined) && (missing1 = "pid")) || ((data11.identity === undefined) && (missing1 = "identity"))){
validate10.errors = [{instancePath:instancePath+"/process",schemaPath:"#/properties/process/required",keyword:"required",params:{missingProperty: missing1},message:"must have required property '"+missing1+"'"}];
return false;
}
else {
if(data11.pid !== undefined){
let data12 = data11.pid;
const _errs25 = errors;
if(!(((typeof data12 == "number") && (!(data12 % 1) && !isNaN(data12))) && (isFinite(data12)))){
validate10.errors = [{instancePath:instancePath+"/process/pid",schemaPath:"#/properties/process/properties/pid/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs25){
if((typeof data12 == "number") && (isFinite(data12))){
if(data12 < 1 || isNaN(data12)){
validate10.errors = [{instancePath:instancePath+"/process/pid",schemaPath:"#/properties/process/properties/pid/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
var valid5 = _errs25 === errors;
}
else {
var valid5 = true;
}
if(valid5){
if(data11.identity !== undefined){
const _errs27 = errors;
if(typeof data11.identity !== "string"){
validate10.errors = [{instancePath:instancePath+"/process/identity",schemaPath:"#/properties/process/properties/identity/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid5 = _errs27 === errors;
}
else {
var valid5 = true;
}
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/process",schemaPath:"#/properties/process/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid4 = _errs23 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.madeAt !== undefined){
let data14 = data.madeAt;
const _errs29 = errors;
const _errs30 = errors;
if(errors === _errs30){
if((typeof data14 == "number") && (isFinite(data14))){
if(data14 > 4000000000000000 || isNaN(data14)){
validate10.errors = [{instancePath:instancePath+"/madeAt",schemaPath:"#/definitions/time/maximum",keyword:"maximum",params:{comparison: "<=", limit: 4000000000000000},message:"must be <= 4000000000000000"}];
return false;
}
else {
if(data14 < 0 || isNaN(data14)){
validate10.errors = [{instancePath:instancePath+"/madeAt",schemaPath:"#/definitions/time/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"}];
return false;
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/madeAt",schemaPath:"#/definitions/time/type",keyword:"type",params:{type: "number"},message:"must be number"}];
return false;
}
}
var valid4 = _errs29 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.keepMs !== undefined){
let data15 = data.keepMs;
const _errs32 = errors;
if(errors === _errs32){
if((typeof data15 == "number") && (isFinite(data15))){
if(data15 > 2147483647 || isNaN(data15)){
validate10.errors = [{instancePath:instancePath+"/keepMs",schemaPath:"#/properties/keepMs/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483647},message:"must be <= 2147483647"}];
return false;
}
else {
if(data15 < 0 || isNaN(data15)){
validate10.errors = [{instancePath:instancePath+"/keepMs",schemaPath:"#/properties/keepMs/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"}];
return false;
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/keepMs",schemaPath:"#/properties/keepMs/type",keyword:"type",params:{type: "number"},message:"must be number"}];
return false;
}
}
var valid4 = _errs32 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.endedAt !== undefined){
let data16 = data.endedAt;
const _errs34 = errors;
const _errs35 = errors;
let valid7 = false;
const _errs36 = errors;
if(data16 !== null){
const err2 = {instancePath:instancePath+"/endedAt",schemaPath:"#/properties/endedAt/anyOf/0/type",keyword:"type",params:{type: "null"},message:"must be null"};
if(vErrors === null){
vErrors = [err2];
}
else {
vErrors.push(err2);
}
errors++;
}
var _valid1 = _errs36 === errors;
valid7 = valid7 || _valid1;
if(!valid7){
const _errs38 = errors;
const _errs39 = errors;
if(errors === _errs39){
if((typeof data16 == "number") && (isFinite(data16))){
if(data16 > 4000000000000000 || isNaN(data16)){
const err3 = {instancePath:instancePath+"/endedAt",schemaPath:"#/definitions/time/maximum",keyword:"maximum",params:{comparison: "<=", limit: 4000000000000000},message:"must be <= 4000000000000000"};
if(vErrors === null){
vErrors = [err3];
}
else {
vErrors.push(err3);
}
errors++;
}
else {
if(data16 < 0 || isNaN(data16)){
const err4 = {instancePath:instancePath+"/endedAt",schemaPath:"#/definitions/time/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err4];
}
else {
vErrors.push(err4);
}
errors++;
}
}
}
else {
const err5 = {instancePath:instancePath+"/endedAt",schemaPath:"#/definitions/time/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err5];
}
else {
vErrors.push(err5);
}
errors++;
}
}
var _valid1 = _errs38 === errors;
valid7 = valid7 || _valid1;
}
if(!valid7){
const err6 = {instancePath:instancePath+"/endedAt",schemaPath:"#/properties/endedAt/anyOf",keyword:"anyOf",params:{},message:"must match a schema in anyOf"};
if(vErrors === null){
vErrors = [err6];
}
else {
vErrors.push(err6);
}
errors++;
validate10.errors = vErrors;
return false;
}
else {
errors = _errs35;
if(vErrors !== null){
if(_errs35){
vErrors.length = _errs35;
}
else {
vErrors = null;
}
}
}
var valid4 = _errs34 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.state !== undefined){
let data17 = data.state;
const _errs41 = errors;
const _errs43 = errors;
let valid9 = false;
let passing0 = null;
const _errs44 = errors;
if(data17 && typeof data17 == "object" && !Array.isArray(data17)){
if(data17.name !== undefined){
if("Running" !== data17.name){
const err7 = {instancePath:instancePath+"/state/name",schemaPath:"#/properties/state/oneOf/0/properties/name/const",keyword:"const",params:{allowedValue: "Running"},message:"must be equal to constant"};
if(vErrors === null){
vErrors = [err7];
}
else {
vErrors.push(err7);
}
errors++;
}
}
}
var _valid2 = _errs44 === errors;
if(_valid2){
valid9 = true;
passing0 = 0;
}
const _errs46 = errors;
if(data17 && typeof data17 == "object" && !Array.isArray(data17)){
let missing2;
if((data17.outcome === undefined) && (missing2 = "outcome")){
const err8 = {instancePath:instancePath+"/state",schemaPath:"#/properties/state/oneOf/1/required",keyword:"required",params:{missingProperty: missing2},message:"must have required property '"+missing2+"'"};
if(vErrors === null){
vErrors = [err8];
}
else {
vErrors.push(err8);
}
errors++;
}
else {
if(data17.name !== undefined){
const _errs47 = errors;
if("Succeeded" !== data17.name){
const err9 = {instancePath:instancePath+"/state/name",schemaPath:"#/properties/state/oneOf/1/properties/name/const",keyword:"const",params:{allowedValue: "Succeeded"},message:"must be equal to constant"};
if(vErrors === null){
vErrors = [err9];
}
else {
vErrors.push(err9);
}
errors++;
}
var valid11 = _errs47 === errors;
}
else {
var valid11 = true;
}
if(valid11){
if(data17.outcome !== undefined){
let data20 = data17.outcome;
const _errs48 = errors;
if(errors === _errs48){
if(data20 && typeof data20 == "object" && !Array.isArray(data20)){
let missing3;
if((((data20.affectedRows === undefined) && (missing3 = "affectedRows")) || ((data20.lastInsertId === undefined) && (missing3 = "lastInsertId"))) || ((data20.warnings === undefined) && (missing3 = "warnings"))){
const err10 = {instancePath:instancePath+"/state/outcome",schemaPath:"#/properties/state/oneOf/1/properties/outcome/required",keyword:"required",params:{missingProperty: missing3},message:"must have required property '"+missing3+"'"};
if(vErrors === null){
vErrors = [err10];
}
else {
vErrors.push(err10);
}
errors++;
}
else {
if(data20.affectedRows !== undefined){
let data21 = data20.affectedRows;
const _errs50 = errors;
const _errs51 = errors;
if(errors === _errs51){
if(typeof data21 === "string"){
if(!pattern0.test(data21)){
const err11 = {instancePath:instancePath+"/state/outcome/affectedRows",schemaPath:"#/definitions/digits/pattern",keyword:"pattern",params:{pattern: "^[0-9]{1,20}$"},message:"must match pattern \""+"^[0-9]{1,20}$"+"\""};
if(vErrors === null){
vErrors = [err11];
}
else {
vErrors.push(err11);
}
errors++;
}
}
else {
const err12 = {instancePath:instancePath+"/state/outcome/affectedRows",schemaPath:"#/definitions/digits/type",keyword:"type",params:{type: "string"},message:"must be string"};
if(vErrors === null){
vErrors = [err12];
}
else {
vErrors.push(err12);
}
errors++;
}
}
var valid12 = _errs50 === errors;
}
else {
var valid12 = true;
}
if(valid12){
if(data20.lastInsertId !== undefined){
let data22 = data20.lastInsertId;
const _errs53 = errors;
const _errs54 = errors;
let valid14 = false;
const _errs55 = errors;
if(data22 !== null){
const err13 = {instancePath:instancePath+"/state/outcome/lastInsertId",schemaPath:"#/properties/state/oneOf/1/properties/outcome/properties/lastInsertId/anyOf/0/type",keyword:"type",params:{type: "null"},message:"must be null"};
if(vErrors === null){
vErrors = [err13];
}
else {
vErrors.push(err13);
}
errors++;
}
var _valid3 = _errs55 === errors;
valid14 = valid14 || _valid3;
if(!valid14){
const _errs57 = errors;
const _errs58 = errors;
if(errors === _errs58){
if(typeof data22 === "string"){
if(!pattern0.test(data22)){
const err14 = {instancePath:instancePath+"/state/outcome/lastInsertId",schemaPath:"#/definitions/digits/pattern",keyword:"pattern",params:{pattern: "^[0-9]{1,20}$"},message:"must match pattern \""+"^[0-9]{1,20}$"+"\""};
if(vErrors === null){
vErrors = [err14];
}
else {
vErrors.push(err14);
}
errors++;
}
}
else {
const err15 = {instancePath:instancePath+"/state/outcome/lastInsertId",schemaPath:"#/definitions/digits/type",keyword:"type",params:{type: "string"},message:"must be string"};
if(vErrors === null){
vErrors = [err15];
}
else {
vErrors.push(err15);
}
errors++;
}
}
var _valid3 = _errs57 === errors;
valid14 = valid14 || _valid3;
}
if(!valid14){
const err16 = {instancePath:instancePath+"/state/outcome/lastInsertId",schemaPath:"#/properties/state/oneOf/1/properties/outcome/properties/lastInsertId/anyOf",keyword:"anyOf",params:{},message:"must match a schema in anyOf"};
if(vErrors === null){
vErrors = [err16];
}
else {
vErrors.push(err16);
}
errors++;
}
else {
errors = _errs54;
if(vErrors !== null){
if(_errs54){
vErrors.length = _errs54;
}
else {
vErrors = null;
}
}
}
var valid12 = _errs53 === errors;
}
else {
var valid12 = true;
}
if(valid12){
if(data20.warnings !== undefined){
let data23 = data20.warnings;
const _errs60 = errors;
const _errs61 = errors;
if(errors === _errs61){
if((typeof data23 == "number") && (isFinite(data23))){
if(data23 < 0 || isNaN(data23)){
const err17 = {instancePath:instancePath+"/state/outcome/warnings",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err17];
}
else {
vErrors.push(err17);
}
errors++;
}
}
else {
const err18 = {instancePath:instancePath+"/state/outcome/warnings",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err18];
}
else {
vErrors.push(err18);
}
errors++;
}
}
var valid12 = _errs60 === errors;
}
else {
var valid12 = true;
}
}
}
}
}
else {
const err19 = {instancePath:instancePath+"/state/outcome",schemaPath:"#/properties/state/oneOf/1/properties/outcome/type",keyword:"type",params:{type: "object"},message:"must be object"};
if(vErrors === null){
vErrors = [err19];
}
else {
vErrors.push(err19);
}
errors++;
}
}
var valid11 = _errs48 === errors;
}
else {
var valid11 = true;
}
}
}
}
var _valid2 = _errs46 === errors;
if(_valid2 && valid9){
valid9 = false;
passing0 = [passing0, 1];
}
else {
if(_valid2){
valid9 = true;
passing0 = 1;
}
const _errs63 = errors;
if(data17 && typeof data17 == "object" && !Array.isArray(data17)){
let missing4;
if((data17.failure === undefined) && (missing4 = "failure")){
const err20 = {instancePath:instancePath+"/state",schemaPath:"#/properties/state/oneOf/2/required",keyword:"required",params:{missingProperty: missing4},message:"must have required property '"+missing4+"'"};
if(vErrors === null){
vErrors = [err20];
}
else {
vErrors.push(err20);
}
errors++;
}
else {
if(data17.name !== undefined){
const _errs64 = errors;
if("Failed" !== data17.name){
const err21 = {instancePath:instancePath+"/state/name",schemaPath:"#/properties/state/oneOf/2/properties/name/const",keyword:"const",params:{allowedValue: "Failed"},message:"must be equal to constant"};
if(vErrors === null){
vErrors = [err21];
}
else {
vErrors.push(err21);
}
errors++;
}
var valid17 = _errs64 === errors;
}
else {
var valid17 = true;
}
if(valid17){
if(data17.failure !== undefined){
let data25 = data17.failure;
const _errs65 = errors;
if(errors === _errs65){
if(data25 && typeof data25 == "object" && !Array.isArray(data25)){
let missing5;
if((((((data25.code === undefined) && (missing5 = "code")) || ((data25.sqlstate === undefined) && (missing5 = "sqlstate"))) || ((data25.message === undefined) && (missing5 = "message"))) || ((data25.outcome === undefined) && (missing5 = "outcome"))) || ((data25.retryable === undefined) && (missing5 = "retryable"))){
const err22 = {instancePath:instancePath+"/state/failure",schemaPath:"#/properties/state/oneOf/2/properties/failure/required",keyword:"required",params:{missingProperty: missing5},message:"must have required property '"+missing5+"'"};
if(vErrors === null){
vErrors = [err22];
}
else {
vErrors.push(err22);
}
errors++;
}
else {
if(data25.code !== undefined){
let data26 = data25.code;
const _errs67 = errors;
if(!(((typeof data26 == "number") && (!(data26 % 1) && !isNaN(data26))) && (isFinite(data26)))){
const err23 = {instancePath:instancePath+"/state/failure/code",schemaPath:"#/properties/state/oneOf/2/properties/failure/properties/code/type",keyword:"type",params:{type: "integer"},message:"must be integer"};
if(vErrors === null){
vErrors = [err23];
}
else {
vErrors.push(err23);
}
errors++;
}
var valid18 = _errs67 === errors;
}
else {
var valid18 = true;
}
if(valid18){
if(data25.sqlstate !== undefined){
const _errs69 = errors;
if(typeof data25.sqlstate !== "string"){
const err24 = {instancePath:instancePath+"/state/failure/sqlstate",schemaPath:"#/properties/state/oneOf/2/properties/failure/properties/sqlstate/type",keyword:"type",params:{type: "string"},message:"must be string"};
if(vErrors === null){
vErrors = [err24];
}
else {
vErrors.push(err24);
}
errors++;
}
var valid18 = _errs69 === errors;
}
else {
var valid18 = true;
}
if(valid18){
if(data25.message !== undefined){
const _errs71 = errors;
if(typeof data25.message !== "string"){
const err25 = {instancePath:instancePath+"/state/failure/message",schemaPath:"#/properties/state/oneOf/2/properties/failure/properties/message/type",keyword:"type",params:{type: "string"},message:"must be string"};
if(vErrors === null){
vErrors = [err25];
}
else {
vErrors.push(err25);
}
errors++;
}
var valid18 = _errs71 === errors;
}
else {
var valid18 = true;
}
if(valid18){
if(data25.outcome !== undefined){
let data29 = data25.outcome;
const _errs73 = errors;
if(!((((data29 === "not_started") || (data29 === "rolled_back")) || (data29 === "committed")) || (data29 === "unknown"))){
const err26 = {instancePath:instancePath+"/state/failure/outcome",schemaPath:"#/properties/state/oneOf/2/properties/failure/properties/outcome/enum",keyword:"enum",params:{allowedValues: schema11.properties.state.oneOf[2].properties.failure.properties.outcome.enum},message:"must be equal to one of the allowed values"};
if(vErrors === null){
vErrors = [err26];
}
else {
vErrors.push(err26);
}
errors++;
}
var valid18 = _errs73 === errors;
}
else {
var valid18 = true;
}
if(valid18){
if(data25.retryable !== undefined){
const _errs74 = errors;
if(typeof data25.retryable !== "boolean"){
const err27 = {instancePath:instancePath+"/state/failure/retryable",schemaPath:"#/properties/state/oneOf/2/properties/failure/properties/retryable/type",keyword:"type",params:{type: "boolean"},message:"must be boolean"};
if(vErrors === null){
vErrors = [err27];
}
else {
vErrors.push(err27);
}
errors++;
}
var valid18 = _errs74 === errors;
}
else {
var valid18 = true;
}
}
}
}
}
}
}
else {
const err28 = {instancePath:instancePath+"/state/failure",schemaPath:"#/properties/state/oneOf/2/properties/failure/type",keyword:"type",params:{type: "object"},message:"must be object"};
if(vErrors === null){
vErrors = [err28];
}
else {
vErrors.push(err28);
}
errors++;
}
}
var valid17 = _errs65 === errors;
}
else {
var valid17 = true;
}
}
}
}
var _valid2 = _errs63 === errors;
if(_valid2 && valid9){
valid9 = false;
passing0 = [passing0, 2];
}
else {
if(_valid2){
valid9 = true;
passing0 = 2;
}
}
}
if(!valid9){
const err29 = {instancePath:instancePath+"/state",schemaPath:"#/properties/state/oneOf",keyword:"oneOf",params:{passingSchemas: passing0},message:"must match exactly one schema in oneOf"};
if(vErrors === null){
vErrors = [err29];
}
else {
vErrors.push(err29);
}
errors++;
validate10.errors = vErrors;
return false;
}
else {
errors = _errs43;
if(vErrors !== null){
if(_errs43){
vErrors.length = _errs43;
}
else {
vErrors = null;
}
}
}
if(errors === _errs41){
if(data17 && typeof data17 == "object" && !Array.isArray(data17)){
let missing6;
if((data17.name === undefined) && (missing6 = "name")){
validate10.errors = [{instancePath:instancePath+"/state",schemaPath:"#/properties/state/required",keyword:"required",params:{missingProperty: missing6},message:"must have required property '"+missing6+"'"}];
return false;
}
}
else {
validate10.errors = [{instancePath:instancePath+"/state",schemaPath:"#/properties/state/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid4 = _errs41 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.columns !== undefined){
let data31 = data.columns;
const _errs76 = errors;
if(errors === _errs76){
if(Array.isArray(data31)){
var valid19 = true;
const len0 = data31.length;
for(let i0=0; i0<len0; i0++){
let data32 = data31[i0];
const _errs78 = errors;
const _errs79 = errors;
if(errors === _errs79){
if(data32 && typeof data32 == "object" && !Array.isArray(data32)){
let missing7;
if((((data32.name === undefined) && (missing7 = "name")) || ((data32.type === undefined) && (missing7 = "type"))) || ((data32.nullable === undefined) && (missing7 = "nullable"))){
validate10.errors = [{instancePath:instancePath+"/columns/" + i0,schemaPath:"#/definitions/column/required",keyword:"required",params:{missingProperty: missing7},message:"must have required property '"+missing7+"'"}];
return false;
}
else {
if(data32.name !== undefined){
const _errs81 = errors;
if(typeof data32.name !== "string"){
validate10.errors = [{instancePath:instancePath+"/columns/" + i0+"/name",schemaPath:"#/definitions/column/properties/name/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid21 = _errs81 === errors;
}
else {
var valid21 = true;
}
if(valid21){
if(data32.nullable !== undefined){
const _errs83 = errors;
if(typeof data32.nullable !== "boolean"){
validate10.errors = [{instancePath:instancePath+"/columns/" + i0+"/nullable",schemaPath:"#/definitions/column/properties/nullable/type",keyword:"type",params:{type: "boolean"},message:"must be boolean"}];
return false;
}
var valid21 = _errs83 === errors;
}
else {
var valid21 = true;
}
if(valid21){
if(data32.type !== undefined){
let data35 = data32.type;
const _errs85 = errors;
const _errs87 = errors;
let valid22 = false;
let passing1 = null;
const _errs88 = errors;
if(data35 && typeof data35 == "object" && !Array.isArray(data35)){
if(data35.name !== undefined){
let data36 = data35.name;
if(!(((((((((((((((((data36 === "Int8") || (data36 === "Int16")) || (data36 === "Int32")) || (data36 === "Int64")) || (data36 === "UInt8")) || (data36 === "UInt16")) || (data36 === "UInt32")) || (data36 === "UInt64")) || (data36 === "Float32")) || (data36 === "Float64")) || (data36 === "Date")) || (data36 === "String")) || (data36 === "Binary")) || (data36 === "Variant")) || (data36 === "Geometry")) || (data36 === "Vector")) || (data36 === "Null"))){
const err30 = {instancePath:instancePath+"/columns/" + i0+"/type/name",schemaPath:"#/definitions/column/properties/type/oneOf/0/properties/name/enum",keyword:"enum",params:{allowedValues: schema17.properties.type.oneOf[0].properties.name.enum},message:"must be equal to one of the allowed values"};
if(vErrors === null){
vErrors = [err30];
}
else {
vErrors.push(err30);
}
errors++;
}
}
}
var _valid4 = _errs88 === errors;
if(_valid4){
valid22 = true;
passing1 = 0;
}
const _errs90 = errors;
if(data35 && typeof data35 == "object" && !Array.isArray(data35)){
let missing8;
if(((data35.precision === undefined) && (missing8 = "precision")) || ((data35.scale === undefined) && (missing8 = "scale"))){
const err31 = {instancePath:instancePath+"/columns/" + i0+"/type",schemaPath:"#/definitions/column/properties/type/oneOf/1/required",keyword:"required",params:{missingProperty: missing8},message:"must have required property '"+missing8+"'"};
if(vErrors === null){
vErrors = [err31];
}
else {
vErrors.push(err31);
}
errors++;
}
else {
if(data35.name !== undefined){
const _errs91 = errors;
if("Decimal" !== data35.name){
const err32 = {instancePath:instancePath+"/columns/" + i0+"/type/name",schemaPath:"#/definitions/column/properties/type/oneOf/1/properties/name/const",keyword:"const",params:{allowedValue: "Decimal"},message:"must be equal to constant"};
if(vErrors === null){
vErrors = [err32];
}
else {
vErrors.push(err32);
}
errors++;
}
var valid24 = _errs91 === errors;
}
else {
var valid24 = true;
}
if(valid24){
if(data35.precision !== undefined){
let data38 = data35.precision;
const _errs92 = errors;
if(!(((typeof data38 == "number") && (!(data38 % 1) && !isNaN(data38))) && (isFinite(data38)))){
const err33 = {instancePath:instancePath+"/columns/" + i0+"/type/precision",schemaPath:"#/definitions/column/properties/type/oneOf/1/properties/precision/type",keyword:"type",params:{type: "integer"},message:"must be integer"};
if(vErrors === null){
vErrors = [err33];
}
else {
vErrors.push(err33);
}
errors++;
}
var valid24 = _errs92 === errors;
}
else {
var valid24 = true;
}
if(valid24){
if(data35.isComputed !== undefined){
const _errs94 = errors;
if(true !== data35.isComputed){
const err34 = {instancePath:instancePath+"/columns/" + i0+"/type/isComputed",schemaPath:"#/definitions/column/properties/type/oneOf/1/properties/isComputed/const",keyword:"const",params:{allowedValue: true},message:"must be equal to constant"};
if(vErrors === null){
vErrors = [err34];
}
else {
vErrors.push(err34);
}
errors++;
}
var valid24 = _errs94 === errors;
}
else {
var valid24 = true;
}
if(valid24){
if(data35.scale !== undefined){
let data40 = data35.scale;
const _errs95 = errors;
if(!(((typeof data40 == "number") && (!(data40 % 1) && !isNaN(data40))) && (isFinite(data40)))){
const err35 = {instancePath:instancePath+"/columns/" + i0+"/type/scale",schemaPath:"#/definitions/column/properties/type/oneOf/1/properties/scale/type",keyword:"type",params:{type: "integer"},message:"must be integer"};
if(vErrors === null){
vErrors = [err35];
}
else {
vErrors.push(err35);
}
errors++;
}
var valid24 = _errs95 === errors;
}
else {
var valid24 = true;
}
}
}
}
}
}
var _valid4 = _errs90 === errors;
if(_valid4 && valid22){
valid22 = false;
passing1 = [passing1, 1];
}
else {
if(_valid4){
valid22 = true;
passing1 = 1;
}
const _errs97 = errors;
if(data35 && typeof data35 == "object" && !Array.isArray(data35)){
let missing9;
if((data35.precision === undefined) && (missing9 = "precision")){
const err36 = {instancePath:instancePath+"/columns/" + i0+"/type",schemaPath:"#/definitions/column/properties/type/oneOf/2/required",keyword:"required",params:{missingProperty: missing9},message:"must have required property '"+missing9+"'"};
if(vErrors === null){
vErrors = [err36];
}
else {
vErrors.push(err36);
}
errors++;
}
else {
if(data35.name !== undefined){
let data41 = data35.name;
const _errs98 = errors;
if(!((data41 === "Timestamp") || (data41 === "Time"))){
const err37 = {instancePath:instancePath+"/columns/" + i0+"/type/name",schemaPath:"#/definitions/column/properties/type/oneOf/2/properties/name/enum",keyword:"enum",params:{allowedValues: schema17.properties.type.oneOf[2].properties.name.enum},message:"must be equal to one of the allowed values"};
if(vErrors === null){
vErrors = [err37];
}
else {
vErrors.push(err37);
}
errors++;
}
var valid25 = _errs98 === errors;
}
else {
var valid25 = true;
}
if(valid25){
if(data35.precision !== undefined){
let data42 = data35.precision;
const _errs99 = errors;
if(!(((typeof data42 == "number") && (!(data42 % 1) && !isNaN(data42))) && (isFinite(data42)))){
const err38 = {instancePath:instancePath+"/columns/" + i0+"/type/precision",schemaPath:"#/definitions/column/properties/type/oneOf/2/properties/precision/type",keyword:"type",params:{type: "integer"},message:"must be integer"};
if(vErrors === null){
vErrors = [err38];
}
else {
vErrors.push(err38);
}
errors++;
}
var valid25 = _errs99 === errors;
}
else {
var valid25 = true;
}
}
}
}
var _valid4 = _errs97 === errors;
if(_valid4 && valid22){
valid22 = false;
passing1 = [passing1, 2];
}
else {
if(_valid4){
valid22 = true;
passing1 = 2;
}
}
}
if(!valid22){
const err39 = {instancePath:instancePath+"/columns/" + i0+"/type",schemaPath:"#/definitions/column/properties/type/oneOf",keyword:"oneOf",params:{passingSchemas: passing1},message:"must match exactly one schema in oneOf"};
if(vErrors === null){
vErrors = [err39];
}
else {
vErrors.push(err39);
}
errors++;
validate10.errors = vErrors;
return false;
}
else {
errors = _errs87;
if(vErrors !== null){
if(_errs87){
vErrors.length = _errs87;
}
else {
vErrors = null;
}
}
}
if(errors === _errs85){
if(data35 && typeof data35 == "object" && !Array.isArray(data35)){
let missing10;
if((data35.name === undefined) && (missing10 = "name")){
validate10.errors = [{instancePath:instancePath+"/columns/" + i0+"/type",schemaPath:"#/definitions/column/properties/type/required",keyword:"required",params:{missingProperty: missing10},message:"must have required property '"+missing10+"'"}];
return false;
}
}
else {
validate10.errors = [{instancePath:instancePath+"/columns/" + i0+"/type",schemaPath:"#/definitions/column/properties/type/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid21 = _errs85 === errors;
}
else {
var valid21 = true;
}
}
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/columns/" + i0,schemaPath:"#/definitions/column/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid19 = _errs78 === errors;
if(!valid19){
break;
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/columns",schemaPath:"#/properties/columns/type",keyword:"type",params:{type: "array"},message:"must be array"}];
return false;
}
}
var valid4 = _errs76 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.stats !== undefined){
let data43 = data.stats;
const _errs101 = errors;
const _errs102 = errors;
let valid26 = false;
const _errs103 = errors;
if(data43 !== null){
const err40 = {instancePath:instancePath+"/stats",schemaPath:"#/properties/stats/anyOf/0/type",keyword:"type",params:{type: "null"},message:"must be null"};
if(vErrors === null){
vErrors = [err40];
}
else {
vErrors.push(err40);
}
errors++;
}
var _valid5 = _errs103 === errors;
valid26 = valid26 || _valid5;
if(!valid26){
const _errs105 = errors;
if(errors === _errs105){
if(data43 && typeof data43 == "object" && !Array.isArray(data43)){
let missing11;
if(((((((data43.runningMs === undefined) && (missing11 = "runningMs")) || ((data43.scan === undefined) && (missing11 = "scan"))) || ((data43.write === undefined) && (missing11 = "write"))) || ((data43.result === undefined) && (missing11 = "result"))) || ((data43.spill === undefined) && (missing11 = "spill"))) || ((data43.queue === undefined) && (missing11 = "queue"))){
const err41 = {instancePath:instancePath+"/stats",schemaPath:"#/properties/stats/anyOf/1/required",keyword:"required",params:{missingProperty: missing11},message:"must have required property '"+missing11+"'"};
if(vErrors === null){
vErrors = [err41];
}
else {
vErrors.push(err41);
}
errors++;
}
else {
if(data43.runningMs !== undefined){
let data44 = data43.runningMs;
const _errs107 = errors;
if(errors === _errs107){
if((typeof data44 == "number") && (isFinite(data44))){
if(data44 < 0 || isNaN(data44)){
const err42 = {instancePath:instancePath+"/stats/runningMs",schemaPath:"#/properties/stats/anyOf/1/properties/runningMs/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err42];
}
else {
vErrors.push(err42);
}
errors++;
}
}
else {
const err43 = {instancePath:instancePath+"/stats/runningMs",schemaPath:"#/properties/stats/anyOf/1/properties/runningMs/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err43];
}
else {
vErrors.push(err43);
}
errors++;
}
}
var valid27 = _errs107 === errors;
}
else {
var valid27 = true;
}
if(valid27){
if(data43.scan !== undefined){
let data45 = data43.scan;
const _errs109 = errors;
if(errors === _errs109){
if(data45 && typeof data45 == "object" && !Array.isArray(data45)){
let missing12;
if(((((data45.rows === undefined) && (missing12 = "rows")) || ((data45.bytes === undefined) && (missing12 = "bytes"))) || ((data45.known === undefined) && (missing12 = "known"))) || ((data45.estimatedRows === undefined) && (missing12 = "estimatedRows"))){
const err44 = {instancePath:instancePath+"/stats/scan",schemaPath:"#/properties/stats/anyOf/1/properties/scan/required",keyword:"required",params:{missingProperty: missing12},message:"must have required property '"+missing12+"'"};
if(vErrors === null){
vErrors = [err44];
}
else {
vErrors.push(err44);
}
errors++;
}
else {
if(data45.rows !== undefined){
let data46 = data45.rows;
const _errs111 = errors;
const _errs112 = errors;
if(errors === _errs112){
if((typeof data46 == "number") && (isFinite(data46))){
if(data46 < 0 || isNaN(data46)){
const err45 = {instancePath:instancePath+"/stats/scan/rows",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err45];
}
else {
vErrors.push(err45);
}
errors++;
}
}
else {
const err46 = {instancePath:instancePath+"/stats/scan/rows",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err46];
}
else {
vErrors.push(err46);
}
errors++;
}
}
var valid28 = _errs111 === errors;
}
else {
var valid28 = true;
}
if(valid28){
if(data45.bytes !== undefined){
let data47 = data45.bytes;
const _errs114 = errors;
const _errs115 = errors;
if(errors === _errs115){
if((typeof data47 == "number") && (isFinite(data47))){
if(data47 < 0 || isNaN(data47)){
const err47 = {instancePath:instancePath+"/stats/scan/bytes",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err47];
}
else {
vErrors.push(err47);
}
errors++;
}
}
else {
const err48 = {instancePath:instancePath+"/stats/scan/bytes",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err48];
}
else {
vErrors.push(err48);
}
errors++;
}
}
var valid28 = _errs114 === errors;
}
else {
var valid28 = true;
}
if(valid28){
if(data45.known !== undefined){
const _errs117 = errors;
if(typeof data45.known !== "boolean"){
const err49 = {instancePath:instancePath+"/stats/scan/known",schemaPath:"#/properties/stats/anyOf/1/properties/scan/properties/known/type",keyword:"type",params:{type: "boolean"},message:"must be boolean"};
if(vErrors === null){
vErrors = [err49];
}
else {
vErrors.push(err49);
}
errors++;
}
var valid28 = _errs117 === errors;
}
else {
var valid28 = true;
}
if(valid28){
if(data45.estimatedRows !== undefined){
let data49 = data45.estimatedRows;
const _errs119 = errors;
const _errs120 = errors;
let valid31 = false;
const _errs121 = errors;
if(data49 !== null){
const err50 = {instancePath:instancePath+"/stats/scan/estimatedRows",schemaPath:"#/properties/stats/anyOf/1/properties/scan/properties/estimatedRows/anyOf/0/type",keyword:"type",params:{type: "null"},message:"must be null"};
if(vErrors === null){
vErrors = [err50];
}
else {
vErrors.push(err50);
}
errors++;
}
var _valid6 = _errs121 === errors;
valid31 = valid31 || _valid6;
if(!valid31){
const _errs123 = errors;
const _errs124 = errors;
if(errors === _errs124){
if((typeof data49 == "number") && (isFinite(data49))){
if(data49 < 0 || isNaN(data49)){
const err51 = {instancePath:instancePath+"/stats/scan/estimatedRows",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err51];
}
else {
vErrors.push(err51);
}
errors++;
}
}
else {
const err52 = {instancePath:instancePath+"/stats/scan/estimatedRows",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err52];
}
else {
vErrors.push(err52);
}
errors++;
}
}
var _valid6 = _errs123 === errors;
valid31 = valid31 || _valid6;
}
if(!valid31){
const err53 = {instancePath:instancePath+"/stats/scan/estimatedRows",schemaPath:"#/properties/stats/anyOf/1/properties/scan/properties/estimatedRows/anyOf",keyword:"anyOf",params:{},message:"must match a schema in anyOf"};
if(vErrors === null){
vErrors = [err53];
}
else {
vErrors.push(err53);
}
errors++;
}
else {
errors = _errs120;
if(vErrors !== null){
if(_errs120){
vErrors.length = _errs120;
}
else {
vErrors = null;
}
}
}
var valid28 = _errs119 === errors;
}
else {
var valid28 = true;
}
}
}
}
}
}
else {
const err54 = {instancePath:instancePath+"/stats/scan",schemaPath:"#/properties/stats/anyOf/1/properties/scan/type",keyword:"type",params:{type: "object"},message:"must be object"};
if(vErrors === null){
vErrors = [err54];
}
else {
vErrors.push(err54);
}
errors++;
}
}
var valid27 = _errs109 === errors;
}
else {
var valid27 = true;
}
if(valid27){
if(data43.write !== undefined){
const _errs126 = errors;
if(!(validate11(data43.write, {instancePath:instancePath+"/stats/write",parentData:data43,parentDataProperty:"write",rootData}))){
vErrors = vErrors === null ? validate11.errors : vErrors.concat(validate11.errors);
errors = vErrors.length;
}
var valid27 = _errs126 === errors;
}
else {
var valid27 = true;
}
if(valid27){
if(data43.result !== undefined){
const _errs127 = errors;
if(!(validate11(data43.result, {instancePath:instancePath+"/stats/result",parentData:data43,parentDataProperty:"result",rootData}))){
vErrors = vErrors === null ? validate11.errors : vErrors.concat(validate11.errors);
errors = vErrors.length;
}
var valid27 = _errs127 === errors;
}
else {
var valid27 = true;
}
if(valid27){
if(data43.spill !== undefined){
const _errs128 = errors;
if(!(validate11(data43.spill, {instancePath:instancePath+"/stats/spill",parentData:data43,parentDataProperty:"spill",rootData}))){
vErrors = vErrors === null ? validate11.errors : vErrors.concat(validate11.errors);
errors = vErrors.length;
}
var valid27 = _errs128 === errors;
}
else {
var valid27 = true;
}
if(valid27){
if(data43.queue !== undefined){
let data53 = data43.queue;
const _errs129 = errors;
const _errs130 = errors;
let valid33 = false;
const _errs131 = errors;
if(data53 !== null){
const err55 = {instancePath:instancePath+"/stats/queue",schemaPath:"#/properties/stats/anyOf/1/properties/queue/anyOf/0/type",keyword:"type",params:{type: "null"},message:"must be null"};
if(vErrors === null){
vErrors = [err55];
}
else {
vErrors.push(err55);
}
errors++;
}
var _valid7 = _errs131 === errors;
valid33 = valid33 || _valid7;
if(!valid33){
const _errs133 = errors;
const _errs134 = errors;
if(errors === _errs134){
if((typeof data53 == "number") && (isFinite(data53))){
if(data53 < 0 || isNaN(data53)){
const err56 = {instancePath:instancePath+"/stats/queue",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err56];
}
else {
vErrors.push(err56);
}
errors++;
}
}
else {
const err57 = {instancePath:instancePath+"/stats/queue",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err57];
}
else {
vErrors.push(err57);
}
errors++;
}
}
var _valid7 = _errs133 === errors;
valid33 = valid33 || _valid7;
}
if(!valid33){
const err58 = {instancePath:instancePath+"/stats/queue",schemaPath:"#/properties/stats/anyOf/1/properties/queue/anyOf",keyword:"anyOf",params:{},message:"must match a schema in anyOf"};
if(vErrors === null){
vErrors = [err58];
}
else {
vErrors.push(err58);
}
errors++;
}
else {
errors = _errs130;
if(vErrors !== null){
if(_errs130){
vErrors.length = _errs130;
}
else {
vErrors = null;
}
}
}
var valid27 = _errs129 === errors;
}
else {
var valid27 = true;
}
}
}
}
}
}
}
}
else {
const err59 = {instancePath:instancePath+"/stats",schemaPath:"#/properties/stats/anyOf/1/type",keyword:"type",params:{type: "object"},message:"must be object"};
if(vErrors === null){
vErrors = [err59];
}
else {
vErrors.push(err59);
}
errors++;
}
}
var _valid5 = _errs105 === errors;
valid26 = valid26 || _valid5;
}
if(!valid26){
const err60 = {instancePath:instancePath+"/stats",schemaPath:"#/properties/stats/anyOf",keyword:"anyOf",params:{},message:"must match a schema in anyOf"};
if(vErrors === null){
vErrors = [err60];
}
else {
vErrors.push(err60);
}
errors++;
validate10.errors = vErrors;
return false;
}
else {
errors = _errs102;
if(vErrors !== null){
if(_errs102){
vErrors.length = _errs102;
}
else {
vErrors = null;
}
}
}
var valid4 = _errs101 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.rows !== undefined){
let data54 = data.rows;
const _errs136 = errors;
const _errs137 = errors;
if(errors === _errs137){
if((typeof data54 == "number") && (isFinite(data54))){
if(data54 < 0 || isNaN(data54)){
validate10.errors = [{instancePath:instancePath+"/rows",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"}];
return false;
}
}
else {
validate10.errors = [{instancePath:instancePath+"/rows",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"}];
return false;
}
}
var valid4 = _errs136 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.pages !== undefined){
let data55 = data.pages;
const _errs139 = errors;
if(errors === _errs139){
if(data55 && typeof data55 == "object" && !Array.isArray(data55)){
let missing13;
if(((data55.rows === undefined) && (missing13 = "rows")) || ((data55.format === undefined) && (missing13 = "format"))){
validate10.errors = [{instancePath:instancePath+"/pages",schemaPath:"#/properties/pages/required",keyword:"required",params:{missingProperty: missing13},message:"must have required property '"+missing13+"'"}];
return false;
}
else {
if(data55.rows !== undefined){
let data56 = data55.rows;
const _errs141 = errors;
if(!(((typeof data56 == "number") && (!(data56 % 1) && !isNaN(data56))) && (isFinite(data56)))){
validate10.errors = [{instancePath:instancePath+"/pages/rows",schemaPath:"#/properties/pages/properties/rows/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs141){
if((typeof data56 == "number") && (isFinite(data56))){
if(data56 < 1 || isNaN(data56)){
validate10.errors = [{instancePath:instancePath+"/pages/rows",schemaPath:"#/properties/pages/properties/rows/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
var valid36 = _errs141 === errors;
}
else {
var valid36 = true;
}
if(valid36){
if(data55.format !== undefined){
let data57 = data55.format;
const _errs143 = errors;
if(!((((data57 === "json") || (data57 === "json, large integers as strings")) || (data57 === "json strings")) || (data57 === "json strings, NULL too"))){
validate10.errors = [{instancePath:instancePath+"/pages/format",schemaPath:"#/properties/pages/properties/format/enum",keyword:"enum",params:{allowedValues: schema11.properties.pages.properties.format.enum},message:"must be equal to one of the allowed values"}];
return false;
}
var valid36 = _errs143 === errors;
}
else {
var valid36 = true;
}
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/pages",schemaPath:"#/properties/pages/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid4 = _errs139 === errors;
}
else {
var valid4 = true;
}
}
}
}
}
}
}
}
}
}
}
}
}
}
}
}
}
}
}
else {
validate10.errors = [{instancePath,schemaPath:"#/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
validate10.errors = vErrors;
return errors === 0;
}
